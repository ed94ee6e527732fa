# The kernel's PTX as bytes of C, packed, without comments, empty lines and indentation. The first four bytes are the
# size of the text, lowest byte first. Then a byte below 128 stands for itself, and others for bytes that came before:
#     10llllbb bbbbbbbb             l + 3 bytes, as they stand b + 1 bytes before
#     11llllll bbbbbbbb bbbbbbbb    l + 4 bytes, likewise
# bzi_kernel_unpack of benzina.c makes the text of them.
#     LC_ALL=C awk -f tests/make/ptx_header.awk benzina_kernels.ptx
/^[ \t]*(\/\/.*)?$/ { next }
{ sub(/^[ \t]+/, ""); gsub(/[ \t]+/, " "); text = text $0 "\n" }

function put(byte) { line = line byte ","; if (length(line) > 110) { print line; line = "" } }

# Looks for the bytes at `at` among those before: sets `gain`, the bytes saved, and `length_of` and `back` of the best.
function find(at,    from, tries, n, saved) {
    gain = 0
    for (from = last[substr(text, at, 3)]; from && at - from <= 65536 && tries++ < 64; from = before[from]) {
        for (n = 3; n < 67 && substr(text, from + n, 8) == substr(text, at + n, 8) && at + n + 8 <= size; ) n += 8
        while (n < 67 && at + n <= size && substr(text, from + n, 1) == substr(text, at + n, 1)) n++
        if (n > 67) n = 67
        saved = at - from <= 1024 && n <= 18 ? n - 2 : n - 3
        if (saved > gain) { gain = saved; length_of = n; back = at - from }
    }
}

END {
    for (i = 1; i < 128; i++) code[sprintf("%c", i)] = i
    size = length(text)
    for (i = 0; i < 4; i++) put(int(size / 256 ^ i) % 256)
    for (at = 1; at <= size; at += step) {
        find(at)
        step = gain ? length_of : 1
        if (!gain) put(code[substr(text, at, 1)])
        else if (back <= 1024 && step <= 18) { put(128 + (step - 3) * 4 + int((back - 1) / 256)); put((back - 1) % 256) }
        else { put(192 + step - 4); put(int((back - 1) / 256)); put((back - 1) % 256) }
        for (i = at; i < at + step; i++) { key = substr(text, i, 3); before[i] = last[key]; last[key] = i }
    }
    if (line != "") print line
}
