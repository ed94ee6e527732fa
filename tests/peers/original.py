"""original.py - archives as the original Benzina's own reader sees them, and as version 0.3 wrote them

    python3 tests/peers/original.py read BENZINA PARSER ARCHIVE [TRACK]
    python3 tests/peers/original.py pictures BENZINA PARSER ARCHIVE FOLDER
    python3 tests/peers/original.py old ARCHIVE OUT

BENZINA is the folder of the original's package, PARSER that of pybenzinaparse: see original.sh. read prints a line for
each sample of TRACK (bzna_input): its target, its name, and the size of its picture. The index and the sample must say
the same. pictures writes I.h265, I.h264 or I.jpg: the picture of each sample as a file, with its parameter sets. old
moves the boxes uuid behind the tracks.

If the reader does not return within 20 seconds of processor time, the status is 3.
"""
import resource
import signal
import struct
import sys
import types


def reader(benzina, parser):
    """The original's modules. Its package itself would need its C extension, so only a part is imported."""
    sys.path.insert(0, parser)
    package = types.ModuleType("benzina")
    package.__path__ = [benzina]
    sys.modules["benzina"] = package
    utils = types.ModuleType("benzina.utils")
    utils.__path__ = [benzina + "/utils"]
    sys.modules["benzina.utils"] = utils
    import benzina.utils.file as file
    return file


def limited():
    def stop(*_):
        print("the original reader does not return", file=sys.stderr)
        sys.stderr.flush()
        import os
        os._exit(3)
    signal.signal(signal.SIGXCPU, stop)
    resource.setrlimit(resource.RLIMIT_CPU, (20, 60))


def value(file, sample, label):
    """What lies in a track of a sample, or None."""
    inner = sample.as_file()
    if inner.trak(label) is None:
        return None
    track = file.Track(inner, label)
    return bytes(track[0])


def read(file, path, track="bzna_input"):
    with file.File(path) as outer:
        samples = file.Track(outer, track)
        rest = {}
        for label in ("bzna_target", "bzna_fname"):
            if outer.trak(label + track[len("bzna_input"):]) is not None:
                rest[label] = file.Track(outer, label + track[len("bzna_input"):])
        for i, sample in enumerate(samples):
            inner = sample.as_file()
            index = {label: bytes(track[i]) for label, track in rest.items() if i < len(track)}
            for label, there in index.items():
                here = value(file, sample, label)
                if here != there and not (here is None and there in (b"\xff" * 8, b"\0")):
                    sys.exit("sample %d: %s is %r in the index, %r in the sample" % (i, label, there, here))
            target = struct.unpack("<q", index["bzna_target"])[0] if "bzna_target" in index else -1
            name = index.get("bzna_fname", b"\0")[:-1].decode()
            print("%d\t%s\t%dx%d" % ((target, name) + file.Track(inner, "bzna_input").shape))


def parameter_sets(kind, config):
    """NAL units of hvcC or avcC."""
    if kind == "h264":
        at, groups = 5, []
        for mask in (31, 255):
            count, at = config[at] & mask, at + 1
            groups.append(count)
            for _ in range(count):
                size = struct.unpack_from(">H", config, at)[0]
                yield config[at + 2:at + 2 + size]
                at += 2 + size
        return
    at = 23
    for _ in range(config[22]):
        count, at = struct.unpack_from(">H", config, at + 1)[0], at + 3
        for _ in range(count):
            size = struct.unpack_from(">H", config, at)[0]
            yield config[at + 2:at + 2 + size]
            at += 2 + size


def pictures(file, path, folder):
    with file.File(path) as outer:
        for i, sample in enumerate(file.Track(outer, "bzna_input")):
            track = file.Track(sample.as_file(), "bzna_input")
            unit = bytes(track[0])
            if unit.startswith(b"\xff\xd8"):
                open("%s/%d.jpg" % (folder, i), "wb").write(unit)
                continue
            at, size = track.video_configuration_location()
            with open(path, "rb") as f:
                f.seek(at - 4)
                kind = {b"hvcC": "h265", b"avcC": "h264"}[f.read(4)]
                config = f.read(size)
            units, at = list(parameter_sets(kind, config)), 0
            while at < len(unit):
                size = struct.unpack_from(">I", unit, at)[0]
                units.append(unit[at + 4:at + 4 + size])
                at += 4 + size
            open("%s/%d.%s" % (folder, i, kind), "wb").write(b"".join(b"\0\0\0\1" + u for u in units))


def boxes(data, at, end):
    while at < end:
        size, header = struct.unpack_from(">I", data, at)[0], 8
        if size == 1:
            size, header = struct.unpack_from(">Q", data, at + 8)[0], 16
        assert header <= size <= end - at, (at, size, end)
        yield bytes(data[at + 4:at + 8]), at, at + header, at + size
        at += size


def behind(data, begin, end):
    """Moves uuid in a moov to its end. The file's offsets stay right, since they are of mdat, before it."""
    children = list(boxes(data, begin, end))
    moved = [c for c in children if c[0] != b"uuid"] + [c for c in children if c[0] == b"uuid"]
    data[begin:end] = b"".join(bytes(data[c[1]:c[3]]) for c in moved)


def old(path, out):
    data = bytearray(open(path, "rb").read())
    top = {kind: (begin, end) for kind, _, begin, end in boxes(data, 0, len(data))}
    at = top[b"mdat"][0]
    while data[at + 4:at + 8] == b"ftyp":              # samples, until the targets
        kinds = {}
        for kind, _, begin, end in boxes(data, at, len(data)):
            kinds[kind] = (begin, end)
            if kind == b"moov":
                break
        behind(data, *kinds[b"moov"])
        at = kinds[b"moov"][1]
    behind(data, *top[b"moov"])
    open(out, "wb").write(data)


if __name__ == "__main__":
    if sys.argv[1] == "old":
        old(sys.argv[2], sys.argv[3])
    else:
        limited()
        {"read": read, "pictures": pictures}[sys.argv[1]](reader(*sys.argv[2:4]), *sys.argv[4:])
