"""RecordIO files written and read by a second program, and compared with the library record by record; raw records
compared with what numpy makes of them.

    python3 tests/peers/recordio.py FOLDER [build/bzna]     from the repository's root, with BENZINA_LIBRARY; files go to
    FOLDER

Prints FAIL and SKIP lines, and a count last. The format: parts of u32 magic, u32 cflag << 29 | length, the bytes, zeros
up to a multiple of 4; a record is cut where its bytes hold the magic number at a multiple of 4, which is left out."""
import array, os, random, struct, subprocess, sys

MAGIC = struct.pack("<I", 0xced7230a)

def write(file, payload):
    """One record; returns where it begins."""
    begin, words = file.tell(), [payload[i:i + 4] for i in range(0, len(payload), 4)]
    parts, part = [], b""
    for word in words:
        if word == MAGIC:
            parts.append(part)
            part = b""
        else:
            part += word
    parts.append(part)
    for i, part in enumerate(parts):
        flag = 0 if len(parts) == 1 else 1 if i == 0 else 3 if i == len(parts) - 1 else 2
        file.write(MAGIC + struct.pack("<I", flag << 29 | len(part)) + part + bytes(-len(part) % 4))
    return begin

def read(data):
    """(offset, payload) of all records."""
    at, records = 0, []
    while at < len(data):
        magic, word = struct.unpack_from("<4sI", data, at)
        assert magic == MAGIC
        flag, length = word >> 29, word & (1 << 29) - 1
        part = data[at + 8:at + 8 + length]
        if flag in (0, 1):
            records.append([at, part])
        else:
            records[-1][1] += MAGIC + part
        at += 8 + (length + 3) // 4 * 4
    return records

def picture(rng):
    """Bytes that hold the magic number now and then, at multiples of 4 and elsewhere, at both ends, twice in a row."""
    pieces = [rng.randbytes(rng.randrange(30)) for _ in range(rng.randrange(6))]
    for _ in range(rng.randrange(4)):
        pieces.insert(rng.randrange(len(pieces) + 1), MAGIC * rng.randrange(1, 3))
    data = b"".join(pieces)
    return data if rng.random() < 0.5 else data[:len(data) // 4 * 4] + MAGIC

def payload(rng):
    """(bytes, id, labels): a picture with one label or several, or fewer bytes than those take."""
    if rng.random() < 0.1:
        return rng.choice([b"", MAGIC, rng.randbytes(rng.randrange(24))]), None, None
    identity = rng.choice([rng.randrange(1 << 20), rng.randrange(1 << 63), struct.unpack("<Q", MAGIC * 2)[0] >> 1])
    labels = array.array("f", [rng.choice([rng.randrange(-3, 1000), rng.uniform(-9, 9), struct.unpack("<f", MAGIC)[0]])
                               for _ in range(rng.choice([1, 1, 2, 5, 30]))])
    flag = 0 if len(labels) == 1 else len(labels)
    data = struct.pack("<IfQQ", flag, 0 if flag else labels[0], identity, rng.choice([0, 7]))
    return data + (labels.tobytes() if flag else b"") + picture(rng), identity, labels

failed, count = [], 0
def check(name, fine):
    global count
    count += 1
    if not fine:
        failed.append(name)
        print("FAIL " + name)

def field(benzina, dataset, i, name):
    try:
        return dataset.field(i, name)
    except benzina.Error:
        return None

def compare(benzina, way, dataset, expected):
    check(way + ": as many records", len(dataset) == len(expected))
    wrong = []
    for i, (begin, data, identity, labels) in enumerate(expected):
        number = labels[0] if labels is not None and len(labels) == 1 else 0.5
        wanted = {"record": data, "id": identity, "name": None if identity is None else str(identity), "label": labels,
                  "target": int(number) if number == int(number) and number != -1 else None}
        wrong += ["%s of record %d at byte %d" % (name, i, begin) for name in wanted
                  if field(benzina, dataset, i, name) != wanted[name]]
    check("%s: the same records; not %s" % (way, ", ".join(wrong[:5])), not wrong)

class Source:
    def __init__(self, data):
        self.data, self.size = data, len(data)
    def read_at(self, offset, size):
        return self.data[offset:offset + size]

TYPES = ("none", "uint8", "int32", "int64", "float32")

def open_records(benzina, path, **fields):
    for name in ("data_type", "label_type"):
        if name in fields:
            fields[name] = TYPES[fields[name]]
    if "layout" in fields:
        fields["layout"] = ("nchw", "nhwc")[fields["layout"]]
    return benzina.Dataset(path, records=fields)

def compare_raw(benzina, folder, np):
    """IDX files of MNIST, binaries of CIFAR-10 and CIFAR-100, tensors of each type; pictures through a loader."""
    rng, path = np.random.default_rng(5), os.path.join(folder, "oracle.raw")
    def pictures(name, head, pixels, layout, labels, **fields):
        n, planes = len(pixels), pixels if layout == 0 else pixels.transpose(0, 2, 3, 1)
        rows = np.concatenate([labels.reshape(n, -1), planes.reshape(n, -1)], axis=1)
        open(path, "wb").write(head + rows.tobytes())
        dataset = open_records(
            benzina,
            path,
            data_type=1,
            layout=layout,
            channels=pixels.shape[1],
            height=pixels.shape[2],
            width=pixels.shape[3],
            header_bytes=len(head),
            data_offset=labels[0].size,
            **fields
        )
        with benzina.DataLoader(dataset, pixels.shape[2:], batch_size=n, output="numpy", warp=None) as loader:
            images, targets = next(iter(loader))[:2]
            wanted = np.broadcast_to(pixels, (n, 3) + pixels.shape[2:]).astype("float32")
            check(name + ": pixels", images.shape == wanted.shape and (images == wanted).all())
            wanted = labels.reshape(n, -1)[:, -1] if labels.size else np.full(n, -1)
            check(name + ": targets", (targets == wanted).all())
    none, labels = np.zeros((7, 0), "u1"), rng.integers(0, 100, (7, 2), "u1")
    mnist, cifar = rng.integers(0, 256, (7, 1, 28, 28), "u1"), rng.integers(0, 256, (7, 3, 32, 32), "u1")
    pictures("MNIST", struct.pack(">4I", 0x803, 7, 28, 28), mnist, 0, none)
    pictures("CIFAR-10", b"", cifar, 0, labels[:, :1], label_type=1)
    pictures("CIFAR-100", b"", cifar, 0, labels, label_type=1, label_offset=1)
    pictures("pixels side by side", b"x", cifar, 1, labels[:, :1], label_type=1)
    for number, dtype in ((1, "u1"), (2, "<i4"), (3, "<i8"), (4, "<f4")):
        bits = rng.integers(0, 256, (5, 6, np.dtype(dtype).itemsize), "u1")
        numbers = bits.view(dtype)[..., 0]
        open(path, "wb").write(bits.tobytes())
        dataset = open_records(benzina, path, data_type=number, channels=2, height=1, width=3, scale=0.37, bias=-2.5)
        with np.errstate(all="ignore"):
            wanted = (numbers.astype("f8") * np.float64(np.float32(0.37)) + -2.5).astype("f4")
        found = np.array([dataset.field(i, "data") for i in range(5)], "f4")
        check("numbers of %s" % dtype, np.array_equal(found, wanted, equal_nan=True))

def compare_mxnet(benzina, mx, path, expected, index):
    """MXNet's own writer and reader: the same bytes, and its labels as the library has them."""
    mine, theirs = open(path, "rb").read(), path[:-4] + ".mxnet"
    writer = mx.MXIndexedRecordIO(theirs + ".idx", theirs + ".rec", "w")
    for i, record in enumerate(expected):
        writer.write_idx(i, record[1])
    writer.close()
    check("MXNet writes the same file", open(theirs + ".rec", "rb").read() == mine)
    check("MXNet writes the same .idx", open(theirs + ".idx").read() == index)
    reader = mx.MXIndexedRecordIO(path[:-3] + "idx", path, "r")
    check("MXNet reads by the .idx of bzna", all(reader.read_idx(i) == r[1] for i, r in enumerate(expected)))
    reader.close()
    labels = [7.0, [1.5, -2.0, 3.0], 0.25, [4.0]]
    writer = mx.MXIndexedRecordIO(theirs + ".idx", theirs + ".rec", "w")
    for i, label in enumerate(labels):
        writer.write_idx(i, mx.pack(mx.IRHeader(0, label, 100 + i, 0), b"picture"))
    writer.close()
    dataset = benzina.Dataset(theirs + ".rec")
    for i, label in enumerate(labels):
        check("labels that MXNet packs: %r" % (label,), dataset.field(i, "id") == 100 + i and
              list(dataset.field(i, "label")) == (label if isinstance(label, list) else [label]))

def main():
    sys.path.insert(0, "examples/python")
    import benzina
    folder, tool = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    rng, path = random.Random(20261122), os.path.join(folder, "oracle.rec")
    expected, index = [], ""
    with open(path, "wb") as file:
        for i in range(400):
            data, identity, labels = payload(rng)
            expected.append((write(file, data), data, identity, labels))
            index += "%d\t%d\n" % (i, expected[-1][0])
    written = open(path, "rb").read()
    check("the reader reads what the writer wrote", [tuple(r) for r in read(written)] == [e[:2] for e in expected])
    if os.path.exists(path[:-3] + "idx"):
        os.remove(path[:-3] + "idx")
    compare(benzina, "by a scan", benzina.Dataset(path), expected)
    compare(benzina, "by callbacks", benzina.Dataset(Source(written)), expected)
    with open(path[:-3] + "idx", "w") as file:
        file.write(index)
    compare(benzina, "by the .idx", benzina.Dataset(path), expected)
    os.remove(path[:-3] + "idx")
    skipped = 0
    try:
        import numpy
        compare_raw(benzina, folder, numpy)
    except ImportError:
        skipped += 1
        print("SKIP raw_records_are_those_of_numpy: numpy is not installed [python3-numpy]")
    if tool and subprocess.run([tool, "index", "--help"], capture_output=True).returncode == 0:
        check("bzna index runs", subprocess.run([tool, "index", path]).returncode == 0)
        check("bzna index writes what rec2idx writes", open(path[:-3] + "idx").read() == index)
    else:
        skipped += 1
        print("SKIP bzna_index_writes_what_rec2idx_writes: this bzna has no command index")
    try:
        from mxnet import recordio as mx, __version__ as version
        with open(path[:-3] + "idx", "w") as file:
            file.write(index)
        compare_mxnet(benzina, mx, path, expected, index)
        print("compared with MXNet " + version)
    except (ImportError, AttributeError):                   # numpy 1.24 and later lack what it asks for
        skipped += 1
        print("SKIP records_are_those_of_mxnet: mxnet is not installed, or its numpy is newer than 1.23")
    print("tests/peers/test_recordio.sh: %d passed, %d failed, %d skipped" % (count - len(failed), len(failed), skipped))
    return bool(failed)

if __name__ == "__main__":
    sys.exit(main())
