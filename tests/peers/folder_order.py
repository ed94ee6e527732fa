"""What torchvision's ImageFolder makes of a folder, without torchvision: its samples, in its order.

    python3 tests/peers/folder_order.py ROOT    class number, a blank, path below ROOT, and a NUL, for each sample
    python3 tests/peers/folder_order.py ROOT --torchvision    the same of torchvision itself; exit status 3: it is not
    installed
    python3 tests/peers/folder_order.py ROOT --bytes    with names compared by their bytes, as benzina compares them

Written after torchvision/datasets/folder.py: find_classes (sorted names of the entries that are folders), make_dataset
(classes by name; in each, sorted(os.walk(folder, followlinks=True)), and sorted file names in each of these),
IMG_EXTENSIONS.
"""
import os
import sys

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

root = sys.argv[1]
if "--torchvision" in sys.argv:
    try:
        from torchvision.datasets import ImageFolder
    except ImportError:
        sys.exit(3)
    for path, number in ImageFolder(root).samples:
        sys.stdout.buffer.write(b"%d %s\0" % (number, os.fsencode(os.path.relpath(path, root))))
    sys.exit(0)
key = os.fsencode if "--bytes" in sys.argv else None
classes = sorted((entry.name for entry in os.scandir(root) if entry.is_dir()), key=key)
for number, name in enumerate(classes):
    found = {folder: files for folder, _, files in os.walk(os.path.join(root, name), followlinks=True)}
    for folder in sorted(found, key=key):
        for file in sorted(found[folder], key=key):
            if file.lower().endswith(EXTENSIONS):
                path = os.path.relpath(os.path.join(folder, file), root)
                sys.stdout.buffer.write(b"%d %s\0" % (number, os.fsencode(path)))
