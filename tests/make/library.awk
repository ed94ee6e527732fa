# library.awk - makes two files of benzina.c for suites, which reach what is static in it and yet link one object:
#
#     awk -v want=c      -f tests/make/library.awk benzina.c      the library, of which no function and no table is static
#     awk -v want=h      -f tests/make/library.awk benzina.c      its types, macros and declarations, without bodies
#
# benzina_kernels.cu is in both, in its place. The header declares its inline functions, too, and those of CALLED can be
# called: to emit all of them takes the compiler long. An "undefined reference" to another one means that it is missing
# there.
#
# This knows no C, but the form of these files: what begins in column 0 is a function, which ends with the next "}" in
# column 0, or ends with a ";" outside of braces. tests/unit/library.h says who includes the header.

# A line without its comments, with a 0 for each string and character.
function code_of(line,    code, start)
{
    while (line != "") {
        if (in_comment) {
            if (!(start = index(line, "*/")))
                return code
            in_comment = 0
            line = substr(line, start + 2)
            continue
        }
        if (!match(line, /["']|\/[*]/))
            return code line
        code = code substr(line, 1, RSTART - 1)
        start = substr(line, RSTART, 1)
        line = substr(line, RSTART + 1)
        if (start == "/") {
            in_comment = 1
            line = substr(line, 2)
        } else {
            match(line, start == "\"" ? /^([^"\\]|\\.)*"/ : /^([^'\\]|\\.)*'/)
            line = substr(line, RLENGTH + 1)
            code = code "0"
        }
    }
    return code
}

function braces(code) { return gsub(/{/, "", code) - gsub(/}/, "", code) }

# What the gathered text declares: of a table without a size its copy, of all other data the name.
function print_declaration()
{
    if (text !~ /^([A-Z_]+ )?static /) {
        printf "%s", text
    } else if (text !~ /\n#/ && text !~ /^[^=]*\[\][^=]*=/) {
        sub(/ *=.*/, ";\n", text)
        sub(/static /, "extern ", text)
        printf "%s", text
    } else if (text !~ /\n#include/) {
        printf "%s", text
    }
    text = head = ""
}

function print_prototype()
{
    sub(/[ \n]*{.*/, ";", text)
    sub(/static (inline )?/, "", text)
    print text
    text = head = ""
}

# What stands outside of functions' bodies, one line after the other.
function header(line, code)
{
    if (in_body) {
        in_body = line !~ /^}/
    } else if (in_directive || line ~ /^#/) {
        if (text == "") print line; else text = text line "\n"
        in_directive = line ~ /\\$/
    } else if (text == "" && code ~ /^[A-Z0-9_]+\(.*\) *$/ && code !~ /^BZI_PRINTF/) {
        return                                                              # a macro that defines functions
    } else if (text != "" || code ~ /[^ ]/) {
        text = text line "\n"
        head = head code
        depth += braces(code)
        if (head ~ /^[^={]*\([^={]*{/) {
            in_body = depth > 0
            depth = 0
            print_prototype()
        } else if (depth == 0 && code ~ /; *$/) {
            print_declaration()
        }
    }
}

function source(line, code)
{
    if (line ~ /^([A-Z_]+ )?static / && code ~ /^([A-Z_]+ )?static /)
        sub(/static (inline )?/, "", line)
    if (line ~ /^BZI_KERNEL_FN / && match(line, /bzi_[a-z0-9_]*\(/) && substr(line, RSTART, RLENGTH - 1) in called)
        sub(/BZI_KERNEL_FN/, "extern inline __attribute__((always_inline))", line)
    print line
}

function take(line,    code)
{
    code = code_of(line)
    if (line ~ /^# *define BZI_KERNEL_CPU /)
        sub(/static (inline )?/, "", line)
    if (want == "c") {
        source(line, code)
    } else {
        sub(/define BZI_KERNEL_FN .*/, "define BZI_KERNEL_FN extern", line)
        header(line, code)
    }
}

BEGIN {
    CALLED = "any_thread apply_matrix bfloat byte half is_separable lanczos length linear_thread next_pass noise " \
             "of pass_thread philox ramp_thread scratch_of smooth"
    split(CALLED, names, " ")
    for (i in names)
        called["bzi_kernel_" names[i]]
    if (want == "c") {
        print "#ifdef __clang__             /* inline functions that can be called have static ones inside */"
        print "#  pragma clang diagnostic ignored \"-Wstatic-in-inline\"\n#endif"
        print "#line 1 \"benzina.c\""
    } else {
        print "#ifndef BENZINA_TEST_LIBRARY\n#define BENZINA_TEST_LIBRARY"
        print "#pragma GCC system_header        /* what a suite does not use gives no warning */"
    }
}

/^#include "benzina_kernels.cu"$/ {
    if (want == "c")
        print "#line 1 \"benzina_kernels.cu\""
    while ((getline line < "benzina_kernels.cu") > 0)
        take(line)
    if (want == "c")
        print "#line " NR + 1 " \"benzina.c\""
    next
}

{ take($0) }

END { if (want == "h") print "#endif" }
