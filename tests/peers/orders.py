"""Writes tests/unit/orders.h: orders of epochs that saved states rely on, made without the library.

    python3 tests/peers/orders.py > tests/unit/orders.h

All of that file comes from here, its comment and types too; tests/bindings/test_python.py holds it to this.

Everything is integer arithmetic of Python's, but for the weighted draws, which need a double's product and its log1p.

Random numbers are as benzina.h says over bzna_random. A shuffled order of `count` samples is a permutation of the
cells of a grid of rows x columns, numbered row by row: rows is the square root of count, rounded down, columns is
count / rows, rounded down, plus 1, and both are at least 8. Words 0 and 1 of philox(counter {epoch low, epoch
high, 1, 0}, key {seed low, seed high}) are the low and high half of a key, words 2 and 3 those of a step, whose
lowest bit is set. Six times, by turns, mix(column, key) is added to the row modulo rows, and mix(row, key) to the
column modulo columns; the key grows by the step after each. A cell at or beyond count is permuted again, until it
is below.
"""
import math

M32, M64 = 2 ** 32 - 1, 2 ** 64 - 1
ORDER = 2                                       # BZNA_RANDOM_ORDER
SEEDS = (77, 0), (0x123456789abcdef0, 2 ** 33 + 5)


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & M32, a >> 32 ^ c[3] ^ k[1], a & M32]
        k = [k[0] + 0x9E3779B9 & M32, k[1] + 0xBB67AE85 & M32]
    return c


def halves(number):
    return [number & M32, number >> 32]


def uniforms(seed, epoch, sample, operation):
    """Doubles in [0, 1) of one stream, from two words each."""
    key = philox(halves(epoch) + [0, 0], halves(seed))[:2]
    for block in range(2 ** 32):
        words = philox(halves(sample) + [operation, block], key)
        for i in (0, 2):
            yield ((words[i + 1] << 32 | words[i]) >> 11) * 2.0 ** -53


def shuffled(seed, epoch, count, position):
    words = philox(halves(epoch) + [1, 0], halves(seed))
    first, step = words[0] | words[1] << 32, words[2] | words[3] << 32 | 1
    rows = max(8, int(math.sqrt(float(count))))
    columns = max(8, count // rows + 1)

    def mix(x, key, limit):
        x = (x ^ key) * 0x9E3779B97F4A7C15 & M64
        x ^= x >> 32
        return ((x * 0xD6E8FEB86659FD93 & M64) >> 32) * limit >> 32

    while True:
        row, column = divmod(position, columns)
        for turn in range(6):
            key = first + turn * step & M64
            if turn % 2 == 0:
                row = (row + mix(column, key, rows)) % rows
            else:
                column = (column + mix(row, key, columns)) % columns
        position = row * columns + column
        if position < count:
            return position


WEIGHTS = [1.0 + i % 7 for i in range(40)]


def replaced(seed, epoch, position):
    """One weighted draw. Its second number picks one of a group, which here has one sample."""
    u = next(uniforms(seed, epoch, position, ORDER)) * sum(WEIGHTS)
    return next(i for i in range(len(WEIGHTS)) if sum(WEIGHTS[:i + 1]) > u)


def drawn_once(seed, epoch):
    """All samples, smallest -log(1 - u) / weight first."""
    key = [-math.log1p(-next(uniforms(seed, epoch, i, ORDER))) / w for i, w in enumerate(WEIGHTS)]
    return sorted(range(len(WEIGHTS)), key=lambda i: (key[i], i))


def rows_of_table():
    for count in (1, 2, 5, 7, 33, 40, 55, 56, 57, 63, 64, 65, 71, 72, 73, 80, 81, 100):
        for seed, epoch in SEEDS:
            yield "SHUFFLED", seed, epoch, count, 0, [shuffled(seed, epoch, count, i) for i in range(count)]
    yield "SHUFFLED", 77, 0, 1000, 0, [shuffled(77, 0, 1000, i) for i in range(1000)]
    yield "SHUFFLED", 1234, 5, 1281167, 0, [shuffled(1234, 5, 1281167, i) for i in range(4)]
    for count in (2 ** 32, 2 ** 40, 2 ** 63):
        for seed, epoch in SEEDS:
            for first in (0, count // 3, count - 4):
                yield "SHUFFLED", seed, epoch, count, first, [shuffled(seed, epoch, count, first + i) for i in range(4)]
    for seed, epoch in SEEDS:
        yield "REPLACED", seed, epoch, len(WEIGHTS), 0, [replaced(seed, epoch, i) for i in range(len(WEIGHTS))]
        yield "ONCE", seed, epoch, len(WEIGHTS), 0, drawn_once(seed, epoch)


HEAD = """\
/* orders.h - generated: change orders.py, then run python3 tests/peers/orders.py > tests/unit/orders.h
 *
 * Orders of epochs, from position `first` on. In REPLACED and ONCE, weighted draws, sample i has the weight 1 + i % 7.
 * A saved state names a place in such an order: a library that gives another one breaks it. */
enum { ORDER_SHUFFLED, ORDER_REPLACED, ORDER_ONCE };

typedef struct stored_order {
    int             kind;
    uint64_t        seed, epoch, count, first;
    uint32_t        n;
    const uint64_t *at;
} stored_order;
"""


def lines(words, width):
    line = "   "
    for word in words:
        if len(line) + 2 + len(word) > width:
            yield line
            line = "   "
        line += " " + word + ","
    yield line


def main():
    table, numbers = [], []
    for kind, seed, epoch, count, first, values in rows_of_table():
        at = f"listed + {len(numbers)}"
        table.append(f"    {{ ORDER_{kind}, {seed}u, {epoch}u, {count}u, {first}u, {len(values)}, {at} }},")
        numbers += [f"{value}u" if value > M32 else str(value) for value in values]
    print(HEAD)
    print("static const uint64_t listed[] = {")
    print("\n".join(lines(numbers, 120)))
    print("};\n\nstatic const stored_order stored_orders[] = {")
    print("\n".join(table))
    print("};")


main()
