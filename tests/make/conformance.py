#!/usr/bin/env python3
"""Opens every HEIF and AVIF file below some folders as the library does, beside what others see in it.

    tests/make/conformance.py BZNA DIR... [--keep DIR]

Meant for the conformance files of the HEIF and AVIF standards (Nokia's HEIF set, AOM's av1-avif/testFiles) and for what
else people send. Needs numpy and Pillow; compares with whatever it finds of heif-convert, avifdec, ffmpeg, Pillow's
AVIF and pillow-heif, of which each reads other files. One row a file:

    same     the picture is as at least one of them sees it
    refused  it is not read, and the message says why; "others read it" if one of them does
    alone    it is read, and none of the others opens it
    WRONG    it is read, and none of those that open it sees the same; CRASH
    HANG     it takes more than 5 s, and 10 s more for each 100 megapixels or 5 MB

Exits with 1 if a file is WRONG, or there was a CRASH or a HANG. info, list and verify must not crash or hang, either.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image, ImageOps

try:
    import pillow_heif
except ImportError:
    pillow_heif = None

EXTENSIONS = (".heic", ".heif", ".hif", ".heics", ".heifs", ".avif", ".avifs", ".avci")
SECONDS = 5
Image.MAX_IMAGE_PIXELS = None


def run(command, seconds=60):
    """The exit status, None if it took too long, and what it said."""
    try:
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, ""
    return p.returncode, p.stdout.decode(errors="replace").strip()


def pixels_of(listing):
    """The largest WIDTHxHEIGHT in it."""
    return max([int(w) * int(h) for w, h in re.findall(r"(?<!\S)(\d+)x(\d+)(?!\S)", listing)], default=0)


def pixels(p):
    if p.mode.startswith("I"):                          # 16 bits, gray
        return np.repeat((np.asarray(p).astype(float) / 257)[..., None], 3, 2)
    return np.asarray(p.convert("RGB")).astype(float)


def picture(path):
    with Image.open(path) as p:
        p.info.pop("xmp", None)                         # XMP's orientation is not HEIF's: irot and imir are
        p = ImageOps.exif_transpose(p)
        return pixels(p)


def by_program(command, out):
    first = out[:-4] + "-1.png"                         # heif-convert's, of several pictures

    def see(path):
        for old in (out, first):
            if os.path.exists(old):
                os.remove(old)
        run([c.replace("IN", path).replace("OUT", out) for c in command])
        return picture(first if os.path.exists(first) else out)
    return see


def by_pillow_heif(path):
    heif = pillow_heif.open_heif(path, convert_hdr_to_8bit=True)
    return pixels(heif.to_pillow())


def eyes(folder):
    out = folder + "/other.png"
    programs = {"heif-convert": ["heif-convert", "IN", "OUT"], "avifdec": ["avifdec", "-d", "8", "IN", "OUT"],
                "ffmpeg": ["ffmpeg", "-v", "error", "-y", "-i", "IN", "-frames:v", "1", "OUT"]}
    found = [(name, by_program(command, out)) for name, command in programs.items() if shutil.which(name)]
    if pillow_heif:
        found.append(("pillow-heif", by_pillow_heif))
    return found + [("Pillow", picture)]


def difference(a, b):
    """Of means of blocks of 8 x 8: how large on average, and in all but one of fifty. None: other sizes."""
    if a.shape != b.shape:
        return None
    h, w = max(a.shape[0] // 8, 1), max(a.shape[1] // 8, 1)
    d = (a - b)[:h * 8, :w * 8]
    d = np.abs(d.reshape(h, d.shape[0] // h, w, d.shape[1] // w, 3).mean((1, 3)))
    return d.mean(), np.quantile(d, 0.98)


def others(path, mine, sights):
    """Who sees the same; who sees something else, and how; both may be empty."""
    different = []
    for name, see in sights:
        try:
            theirs = see(path)
        except Exception:                               # whatever is wrong with the file or the program
            continue
        d = difference(mine, theirs) if mine is not None else None
        if d and d[0] <= 3 and d[1] <= 10:
            return name, different
        different.append("%s %dx%d%s" % (name, theirs.shape[1], theirs.shape[0], " %.1f %.1f" % d if d else ""))
    return None, different


def judge(bzna, path, folder, sights):
    out = folder + "/mine.png"
    if os.path.exists(out):
        os.remove(out)
    seconds = SECONDS + os.path.getsize(path) / 500000
    for command in (["info", path], ["list", path], ["verify", path], ["extract", path, "0", "-o", out]):
        status, said = run([bzna] + command, seconds)
        if status is None:
            return "HANG", command[0]
        if status < 0 or status > 100:
            return "CRASH", "%s: status %d: %s" % (command[0], status, said)
        if command[0] == "list":
            seconds += pixels_of(said) / 1e7
    said = said.splitlines()[-1] if said else ""
    mine = picture(out) if status == 0 else None
    same, different = others(path, mine, sights)
    if mine is None:
        return "refused", said + (" (others read it: %s)" % different[0] if different else "")
    size = "%dx%d" % (mine.shape[1], mine.shape[0])
    if same:
        return "same", "%s as by %s" % (size, same)
    return ("WRONG", "%s, but %s" % (size, "; ".join(different))) if different else ("alone", size)


def main():
    keep = sys.argv.index("--keep") if "--keep" in sys.argv else 0
    kept = sys.argv[keep + 1] if keep else None
    places = [a for i, a in enumerate(sys.argv[1:], 1) if not a.startswith("--") and not (keep and i == keep + 1)]
    if len(places) < 2:
        sys.exit(__doc__)
    bzna, files, totals = places[0], [], {}
    for place in places[1:]:
        for top, _, names in os.walk(place):
            files += [os.path.join(top, n) for n in names if n.lower().endswith(EXTENSIONS)]
    with tempfile.TemporaryDirectory() as folder:
        sights = eyes(folder)
        for path in sorted(files):
            result, detail = judge(bzna, path, folder, sights)
            totals[result] = totals.get(result, 0) + 1
            print("%-8s %s: %s" % (result, os.path.basename(path), detail.replace(path, "")), flush=True)
            if kept and result == "WRONG":
                shutil.copy(folder + "/mine.png", os.path.join(kept, os.path.basename(path) + ".png"))
    print("%d files: %s" % (len(files), ", ".join("%d %s" % (n, r) for r, n in sorted(totals.items()))))
    sys.exit(any(totals.get(r) for r in ("WRONG", "CRASH", "HANG")))


main()
