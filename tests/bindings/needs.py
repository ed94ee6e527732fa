"""needs.py - what a test in Python needs of others: the reason of its skip names the package"""

import unittest

# Debian's packages of modules, as reasons name them, also in releases that have only some. PyPI has all modules.
PACKAGES = {
    "PIL": "[python3-pil]",
    "PIL.Image": "[python3-pil]",
    "cv2": "[python3-opencv]",
    "fsspec": "[python3-fsspec]",
    "mypy": "[mypy]",
    "numpy": "[python3-numpy]",
    "torch": "[python3-torch]",
    "torchvision": "[python3-torchvision]",
}


def importable(name):
    try:
        return __import__(name)
    except (ImportError, OSError):
        return None


def why_not(*names):
    """None if all can be imported."""
    absent = [name for name in names if importable(name) is None]
    return "; ".join("%s is not installed %s" % (name, PACKAGES.get(name, "(pip install)")) for name in absent) or None


def needs(*names):
    return unittest.skipIf(why_not(*names), why_not(*names))
