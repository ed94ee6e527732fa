# Counts the tokens of C source, a line a room: names, numbers, strings, characters and operators. Comments, blanks and line ends
# are free, so that a sentence more, or a blank line between two steps, costs nothing.
#     awk -f tests/make/size.awk benzina.c benzina.h benzina_kernels.cu
# A room begins with a banner, "/* ==== 7. Cursor ====": what stands outside of rooms is counted under its file's name.
function add(n) { if (n == 0) return; if (!(room in tokens)) order[++rooms] = room; tokens[room] += n; total += n }

FNR == 1 { room = FILENAME; comment = 0 }
!comment && /^\/\* ==== / { room = $0; sub(/^\/\* ==== /, "", room); sub(/ =+[^=]*$/, "", room); room = FILENAME " " room }
{
    line = $0
    n = 0
    while (line != "") {
        if (comment) {
            end = index(line, "*/")
            if (!end) break
            line = substr(line, end + 2)
            comment = 0
        } else if (match(line, /^[ \t]+/)) {
            line = substr(line, RLENGTH + 1)
        } else if (substr(line, 1, 2) == "//") {
            break
        } else if (substr(line, 1, 2) == "/*") {
            comment = 1
            line = substr(line, 3)
        } else {
            if (!match(line, /^[A-Za-z_][A-Za-z_0-9]*/) && !match(line, /^\.?[0-9]([eEpP][-+]|[A-Za-z_0-9.])*/) &&
                !match(line, /^"([^"\\]|\\.)*"/) && !match(line, /^'([^'\\]|\\.)*'/) && !match(line, /^(<<=|>>=|\.\.\.)/) &&
                !match(line, /^(->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||##|[-+*\/%&|^]=)/)) RLENGTH = 1
            line = substr(line, RLENGTH + 1)
            n++
        }
    }
    add(n)
}
END {
    for (i = 1; i <= rooms; i++) printf "%7d  %s\n", tokens[order[i]], order[i]
    printf "%7d  together\n", total
}
