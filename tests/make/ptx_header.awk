# The kernel's PTX as bytes of C, packed, without comments, empty lines and indentation. The first four bytes are the
# size of the text, lowest byte first. Then a byte below 128 stands for itself, and others for bytes that came before:
#     10llllbb bbbbbbbb             l + 3 bytes, as they stand b + 1 bytes before
#     11llllll bbbbbbbb bbbbbbbb    l + 4 bytes, likewise
# bzi_kernel_unpack of benzina.c makes the text of them. Of all ways to write the text so, this takes the shortest, of
# the repetitions that it looks for. A second with mawk.
#     LC_ALL=C awk -f tests/make/ptx_header.awk benzina_kernels.ptx
/^[ \t]*(\/\/.*)?$/ { next }
{
    sub(/^[ \t]+/, ""); gsub(/[ \t]+/, " ")
    lines = lines $0 "\n"                           # awk copies what it appends to: seldom the whole text
    if (length(lines) > 4000) { text = text lines; lines = "" }
}

function put(byte) { line = line byte ","; if (length(line) > 110) { print line; line = "" } }

# n bytes at `from` are those at `at`: more than were found so far.
function take(at, from, n) {
    if (n > far[at]) { far[at] = n; far_back[at] = at - from }
    if (at - from <= 1024) { near[at] = n > 18 ? 18 : n; near_back[at] = at - from }
}

# Follows the places that begin with the same 5 bytes, the last one first, as long as they may be taken.
function follow(from, at, oldest, first,    n, most, next_byte) {
    most = 4
    next_byte = byte[at + most]
    for (; from >= oldest && nth[from] >= first; from = before[from]) {
        if (byte[from + most] != next_byte) continue
        for (n = 5; n < 67 && byte[from + n] == byte[at + n]; n++) ;
        if (n > most) { take(at, from, n); most = n; next_byte = byte[at + n] }
    }
}

# Looks for the bytes at `at` among those before: the most that are equal, at most 67, at all and within 1024 bytes, and
# where. Places are taken from the last 65536 bytes, and of those that begin with the same 3 bytes from the last 64.
# Where 4 or 3 bytes are the most, their last place is the one that is taken.
function find(at,    oldest, first, n, key, from) {
    oldest = at > 65536 ? at - 65536 : 1
    nth[at] = ++times[substr(text, at, 3)]
    first = nth[at] - 64
    for (n = 5; n >= 3; n--) {
        key = substr(text, at, n)
        from = last[key]
        last[key] = at
        if (n == 5) { before[at] = from; follow(from, at, oldest, first) }
        else if (!near[at] && from >= oldest && nth[from] >= first) take(at, from, n)
    }
}

# The bytes that the rest of the text takes from `at` on, and how its first step is written.
function weigh(at,    n, least, best) {
    least = 1 + cost[at + 1]
    best = 1
    for (n = 3; n <= near[at]; n++) if (2 + cost[at + n] < least) { least = 2 + cost[at + n]; best = n }
    for (n = n < 4 ? 4 : n; n <= far[at]; n++) if (3 + cost[at + n] < least) { least = 3 + cost[at + n]; best = -n }
    cost[at] = least
    step[at] = best
}

END {
    for (i = 1; i < 128; i++) code[sprintf("%c", i)] = i
    text = text lines
    size = length(text)
    # No text has two ends of lines in turn: what is looked for at its end is not found. An array that split makes is
    # the fastest that mawk has.
    text = text "\n\n\n"
    split(text, byte, ""); split(text, before, ""); split(text, nth, ""); split(text, cost, "")
    for (at = 1; at <= size + 3; at++) byte[at] = code[byte[at]]
    for (at = 1; at + 2 <= size; at++) find(at)
    cost[size + 1] = 0
    for (at = size; at >= 1; at--) weigh(at)
    for (n = size; places < 4; places++) { put(n % 256); n = int(n / 256) }
    for (at = 1; at <= size; at += step[at] < 0 ? -step[at] : step[at]) {
        n = step[at]
        if (n == 1) put(byte[at])
        else if (n > 0) { put(128 + (n - 3) * 4 + int((near_back[at] - 1) / 256)); put((near_back[at] - 1) % 256) }
        else { put(192 - n - 4); put(int((far_back[at] - 1) / 256)); put((far_back[at] - 1) % 256) }
    }
    if (line != "") print line
}
