# Makes a C program of benzina.h that prints every public struct's size and its fields' offsets and sizes: awk -f tests/abi.awk benzina.h > abi.c
BEGIN { print "#include \"benzina.h\"\n#include <stdio.h>\nint main(void)\n{" }
{ sub(/\/\*.*/, "") }                                     # comments; continued ones hold no semicolon at their end that is a field's
/^ \*/ { next }
/^typedef struct bzna_[a-z_]+ \{/ { name = $3; printf "    printf(\"%s %%zu\\n\", sizeof(%s));\n", name, name; next }
/^}/ { name = ""; next }
name != "" && /;[ \t]*$/ {
    line = $0
    sub(/;[ \t]*$/, "", line)
    if (match(line, /\(\*[a-z_]+\)/)) fields = substr(line, RSTART + 2, RLENGTH - 3)
    else { sub(/^[ \t]*((const|void|uint(8|16|32|64)_t|int(32|64)_t|float|double|char|bzna_[a-z_]+)[ \t]+)+/, "", line); fields = line }
    n = split(fields, list, ",")
    for (i = 1; i <= n; i++) {
        field = list[i]
        gsub(/\[[^]]*\]|\*|const|[ \t]/, "", field)
        printf "    printf(\"  %s %%zu %%zu\\n\", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n", field, name, field, name, field
    }
}
END { print "    return 0;\n}" }
