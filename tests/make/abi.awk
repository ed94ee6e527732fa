# What benzina.h, and a header after it, promise to those who were compiled with it.
#
#     awk -f tests/make/abi.awk benzina.h > abi.c            a C program that prints the size of every public struct and the offset and size
#                                                       of every member, and once more, by dotted name, of those of a struct inside
#     awk -v list=functions -f tests/make/abi.awk benzina.h  the names of all functions, one a line
#
# The header is read as C reads it: without comments and preprocessor lines (and what continues them), declarations ending at a semicolon.
function trim(text) { gsub(/^[ \t\n]+|[ \t\n]+$/, "", text); return text }

# Everything of "const char *name, *field" that is no name: the type, of which the first name is the end, then stars, lengths and spaces.
function name_of(declarator) {
    if (match(declarator, /\(\*[a-z0-9_]+\)/)) return substr(declarator, RSTART + 2, RLENGTH - 3)
    gsub(/\[[^]]*\]/, "", declarator)
    declarator = trim(declarator)
    sub(/^.*[ *]/, "", declarator)
    return declarator
}

function read_struct(name, body,   n, i, k, m, parts, declarators, type) {
    structs[++struct_count] = name
    n = split(body, parts, ";")
    for (i = 1; i < n; i++) {
        if (parts[i] ~ /\(\*/) { m = 1; declarators[1] = parts[i] } else m = split(parts[i], declarators, ",")
        type = trim(parts[i]); sub(/[ \t\n].*$/, "", type)
        for (k = 1; k <= m; k++) {
            members[name, ++member_count[name]] = name_of(declarators[k])
            inside[name, member_count[name]] = declarators[k] ~ /[[(*]/ ? "" : type
        }
    }
}

# The members of a struct, and below each that is a struct those of it.
function print_members(struct, type, prefix, indent,   i, path) {
    for (i = 1; i <= member_count[type]; i++) {
        path = prefix members[type, i]
        printf "    printf(\"%s%s %%zu %%zu\\n\", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n", indent, path, struct, path, struct, path
        if (inside[type, i] in member_count) print_members(struct, inside[type, i], path ".", indent "  ")
    }
}

{
    line = $0
    if (directive || (!comment && line ~ /^[ \t]*#/)) {
        directive = line ~ /\\$/
        if (!(i = index(line, "/*"))) next
        line = substr(line, i)
    }
    out = ""
    while (length(line)) {
        if (comment) {
            if (!(i = index(line, "*/"))) break
            line = substr(line, i + 2); comment = 0
        } else if ((i = index(line, "/*"))) {
            out = out substr(line, 1, i - 1) " "; line = substr(line, i + 2); comment = 1
        } else { out = out line; break }
    }
    code = code out "\n"
}

END {
    rest = code
    while (match(rest, /typedef struct bzna_[a-z0-9_]+[ \n]*\{[^}]*\}/)) {
        text = substr(rest, RSTART, RLENGTH); rest = substr(rest, RSTART + RLENGTH)
        name = text; sub(/^typedef struct /, "", name); sub(/[ \n]*\{.*$/, "", name)
        sub(/^[^{]*\{/, "", text); sub(/\}$/, "", text)
        read_struct(name, text)
    }
    if (list == "functions") {
        n = split(code, statements, ";")
        for (i = 1; i <= n; i++) if (statements[i] ~ /BZNA_([A-Z]+_)?API[ \n]/) {
            name = statements[i]; sub(/^.*BZNA_([A-Z]+_)?API[ \n]/, "", name); sub(/[ \n]*\(.*$/, "", name); print name_of(name)
        }
        exit
    }
    if (ARGC > 2) print "#include \"formats.h\""
    print "#include \"benzina.h\"\n#include <stdio.h>\nint main(void)\n{"
    for (s = 1; s <= struct_count; s++) {
        printf "    printf(\"%s %%zu\\n\", sizeof(%s));\n", structs[s], structs[s]
        print_members(structs[s], structs[s], "", "  ")
    }
    print "    return 0;\n}"
}
