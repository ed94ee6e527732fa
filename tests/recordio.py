"""RecordIO files written and read by a second program, and compared with the library record by record.

    python3 tests/recordio.py FOLDER [build/bzna]     from the repository's root, with BENZINA_LIBRARY; files go to FOLDER

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
    skipped = 1
    if tool and subprocess.run([tool, "index", "--help"], capture_output=True).returncode == 0:
        skipped = 0
        check("bzna index runs", subprocess.run([tool, "index", path]).returncode == 0)
        check("bzna index writes what rec2idx writes", open(path[:-3] + "idx").read() == index)
    else:
        print("SKIP bzna_index_writes_what_rec2idx_writes: this bzna has no command index")
    print("SKIP records_are_those_of_mxnet: mxnet is not installed (it has no wheels for today's Pythons)")
    print("tests/test_recordio.sh: %d passed, %d failed, %d skipped" % (count - len(failed), len(failed), skipped + 1))
    return bool(failed)

if __name__ == "__main__":
    sys.exit(main())
