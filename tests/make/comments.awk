# What the reference in benzina.h must say.
#
#     awk -f tests/make/comments.awk benzina.h
#
# Each public function has a comment of its own, directly above it, that names each of its parameters but err, out and struct_size. Each member
# of a struct stands on a line of its own, with a comment behind it or directly above. Prints what lacks; exit status 1 if something does, or if
# too little was found to have looked at all.
function complain(line, text) { print FILENAME ": " line ": " text; bad = 1 }

# Does the text have the word, alone?
function names(text, word) { return (" " text " ") ~ ("[^A-Za-z0-9_]" word "[^A-Za-z0-9_]") }

function check_function(declaration, line, said,   name, n, i, list, parameter) {
    name = declaration; sub(/[ \n]*\(.*$/, "", name); sub(/^.*[ *\n]/, "", name)
    functions++
    if (said == "") { complain(line, name ": it has no comment of its own"); return }
    list = declaration; sub(/^[^(]*\(/, "", list); sub(/\)[^)]*$/, "", list)
    n = split(list, parts, ",")
    for (i = 1; i <= n; i++) {
        parameter = parts[i]
        gsub(/\[[^]]*\]/, "", parameter); sub(/[ \n]+$/, "", parameter); sub(/^.*[ *\n]/, "", parameter)
        if (parameter == "void" || parameter == "err" || parameter == "out" || parameter == "struct_size") continue
        parameters++
        if (!names(said, parameter)) complain(line, name ": its comment does not name " parameter)
    }
}

# A line of a struct's body, its comments taken out; commented: whether there was one, or one ends above.
function check_member(text, line, commented) {
    sub(/^[ \t]+/, "", text); sub(/[ \t]+$/, "", text)
    if (text == "") return
    members++
    if (text !~ /\(\*/ && text ~ /,/) complain(line, "several members on a line: " text)
    if (text ~ /;.*;/) complain(line, "several members on a line: " text)
    if (!commented) complain(line, struct ": a member without a comment: " text)
}

# Code without comments; a comment that has lines of its own ended in line "ended", and says "block".
{
    code = ""; rest = $0; any = comment
    while (rest != "") {
        if (comment) {
            if (!(i = index(rest, "*/"))) { block = block " " rest; break }
            block = block " " substr(rest, 1, i - 1); rest = substr(rest, i + 2); comment = 0
            if (alone) ended = FNR
        } else if ((i = index(rest, "/*"))) {
            code = code substr(rest, 1, i - 1); rest = substr(rest, i + 2); block = ""; comment = 1; any = 1; alone = code ~ /^[ \t]*$/
        } else { code = code rest; break }
    }
}
code ~ /^typedef struct bzna_[a-z_]+ *\{/ { struct = code; sub(/^typedef struct /, "", struct); sub(/ *\{.*$/, "", struct); next }
struct != "" && code ~ /^\}/ { struct = "" }
struct != "" { check_member(code, FNR, any || ended == FNR - 1) }
code ~ /^BZNA_API / { declaration = ""; begin = FNR; said = ended == FNR - 1 ? block : "" }
begin {
    declaration = declaration code "\n"
    if (code ~ /;[ \t]*$/) { sub(/;[ \t\n]*$/, "", declaration); check_function(declaration, begin, said); begin = 0 }
}
END {
    if (functions < 60 || parameters < 150 || members < 300)
        complain(FNR, "only " functions " functions, " parameters " parameters and " members " members were found")
    exit bad
}
