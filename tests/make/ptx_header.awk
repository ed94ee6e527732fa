# The kernel's PTX as bytes of C, packed, without comments, empty lines and indentation. The first four bytes are the
# size of the text, lowest byte first. Then a byte below 128 stands for itself, and others for bytes that came before:
#     10llllbb bbbbbbbb             l + 3 bytes, as they stand b + 1 bytes before
#     11llllll bbbbbbbb bbbbbbbb    l + 4 bytes, likewise
# bzi_kernel_unpack of benzina.c makes the text of them. Of all ways to write the text so, this takes the shortest, of
# the repetitions that it looks for. Seconds.
#     LC_ALL=C awk -f tests/make/ptx_header.awk benzina_kernels.ptx
/^[ \t]*(\/\/.*)?$/ { next }
{ sub(/^[ \t]+/, ""); gsub(/[ \t]+/, " "); text = text $0 "\n" }

function put(byte) { line = line byte ","; if (length(line) > 110) { print line; line = "" } }

# How many bytes are equal at two places, at most 67, of which the first n are known to be.
function equal(from, at, n) {
    while (n < 60 && at + n + 8 <= size && substr(text, from + n, 8) == substr(text, at + n, 8)) n += 8
    while (n < 67 && at + n <= size && substr(text, from + n, 1) == substr(text, at + n, 1)) n++
    return n
}

# Looks for the bytes at `at` among those before: the most that are equal, at all and within 1024 bytes, and where.
function find(at,    from, tries, n, key) {
    key = substr(text, at, 3)
    for (from = last[key]; from && at - from <= 65536 && tries++ < 64; from = before[from]) {
        n = far[at]
        if (n && (at + n > size || substr(text, from + n, 1) != substr(text, at + n, 1))) continue
        n = equal(from, at, 3)
        if (n > far[at]) { far[at] = n; far_back[at] = at - from }
        if (n > near[at] && at - from <= 1024) { near[at] = n > 18 ? 18 : n; near_back[at] = at - from }
    }
    before[at] = last[key]
    last[key] = at
}

# The bytes that the rest of the text takes from `at` on, and how its first step is written.
function weigh(at,    n) {
    cost[at] = 1 + cost[at + 1]
    step[at] = 1
    for (n = 3; n <= near[at]; n++) if (2 + cost[at + n] < cost[at]) { cost[at] = 2 + cost[at + n]; step[at] = n }
    for (n = 4; n <= far[at]; n++) if (3 + cost[at + n] < cost[at]) { cost[at] = 3 + cost[at + n]; step[at] = -n }
}

END {
    for (i = 1; i < 128; i++) code[sprintf("%c", i)] = i
    size = length(text)
    for (at = 1; at + 2 <= size; at++) find(at)
    for (at = size; at >= 1; at--) weigh(at)
    for (i = 0; i < 4; i++) put(int(size / 256 ^ i) % 256)
    for (at = 1; at <= size; at += step[at] < 0 ? -step[at] : step[at]) {
        n = step[at]
        if (n == 1) put(code[substr(text, at, 1)])
        else if (n > 0) { put(128 + (n - 3) * 4 + int((near_back[at] - 1) / 256)); put((near_back[at] - 1) % 256) }
        else { put(192 - n - 4); put(int((far_back[at] - 1) / 256)); put((far_back[at] - 1) % 256) }
    }
    if (line != "") print line
}
