#!/bin/sh
# test_julia.sh - the Julia module of examples/julia, held against benzina.h and stream.h
#
#     sh tests/bindings/test_julia.sh build/bzna build        from the repository's root
#
# Where there is a julia, runtests.jl is run. Without one, and as well with one: a scanner looks for brackets and blocks
# that do not close and for names that nobody defines, and a C program made from the module's structs, constants, calls
# and callbacks asks the C compiler whether they are the headers'. The mutations at the end prove that it would notice.
# Prints FAIL and SKIP lines, and a count last.
# shellcheck disable=SC2016
build=${2:?usage: sh tests/bindings/test_julia.sh build/bzna build}
package=examples/julia module=examples/julia/src/Benzina.jl
passed=0 failed=0 skipped=0 agrees=
LC_ALL=C
export LC_ALL
t=$(mktemp -d "${TMPDIR:-/tmp}/test_julia.XXXXXX") || exit 1
trap 'rm -rf "$t"' EXIT
trap 'exit 1' HUP INT TERM

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAIL $1"; shift; for line; do printf '%s\n' "$line" | sed 's/^/  /'; done; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }

# Julia without comments and with empty strings, line for line; ends with status 1 where one of them does not end.
cat >"$t/strip.awk" <<'AWK'
{ lines = lines $0 "\n"; if (length(lines) > 4000) { code = code lines; lines = "" } }   # awk copies what it appends to
END {
    code = code lines
    n = length(code)
    for (i = 1; i <= n; i++) {
        c = substr(code, i, 1)
        if (substr(code, i, 2) == "#=") {
            depth = 1
            for (i += 2; i <= n && depth; i++) {
                if (substr(code, i, 2) == "=#") { depth--; i++ } else if (substr(code, i, 2) == "#=") { depth++; i++ }
                else if (substr(code, i, 1) == "\n") printf "\n"
            }
            if (depth) bad = "a comment"
            i--
        } else if (c == "#") {
            while (i < n && substr(code, i + 1, 1) != "\n") i++
        } else if (c == "\"") {
            quotes = substr(code, i, 3) == "\"\"\"" ? 3 : 1
            mark = substr("\"\"\"", 1, quotes); inside = 0; begun = i
            for (i += quotes; i <= n; i++) {
                c = substr(code, i, 1)
                if (c == "\n") printf "\n"
                if (c == "\\") i++
                else if (substr(code, i, 2) == "$(") { inside++; i++ }
                else if (inside && c == "(") inside++
                else if (inside && c == ")") inside--
                else if (!inside && substr(code, i, quotes) == mark) break
                else if (quotes == 1 && c == "\n") bad = "a string"
            }
            if (i > n) bad = "a string"
            i += quotes - 1; printf "\"\""
        } else if (c == "'" && substr(code, i, 4) ~ /^'(\\.|[^\\'])'/) {
            i += substr(code, i + 1, 1) == "\\" ? 3 : 2; printf "0"
        } else printf "%s", c
    }
    if (bad) { print bad " does not end" > "/dev/stderr"; exit 1 }
}
AWK

# Brackets and blocks in pairs. `for` and `if` inside brackets belong to a comprehension, `end` and `begin` inside []
# are an index.
cat >"$t/balance.awk" <<'AWK'
BEGIN { split("module baremodule struct function macro if for while let begin do try quote abstract primitive", words, " "); for (w in words) opens[words[w]] = 1 }
function wrong(text) { print FILENAME ":" FNR ": " text; bad = 1; exit 1 }
{
    line = $0; before = " "
    while (length(line)) {
        c = substr(line, 1, 1)
        if (match(line, /^[A-Za-z_][A-Za-z0-9_!]*/)) {
            word = substr(line, 1, RLENGTH); line = substr(line, RLENGTH + 1)
            top = depth ? stack[depth] : ""
            if (before !~ /[:.@]/) {
                if (word == "end") {
                    if (top == "[") { }
                    else if (!depth) wrong("an end too many")
                    else if (top == "(" || top == "{") wrong("end inside a " top " of line " from[depth])
                    else depth--
                } else if ((word in opens) && !((word == "for" || word == "if") && top ~ /^[([{]$/) && !(word == "begin" && top == "[")) {
                    stack[++depth] = word; from[depth] = FNR
                }
            }
            before = "x"
            continue
        }
        if (c ~ /[([{]/) { stack[++depth] = c; from[depth] = FNR }
        if (c ~ /[])}]/) {
            want = c == ")" ? "(" : c == "]" ? "[" : "{"
            if (!depth || stack[depth] != want) wrong(c " closes " (depth ? "the " stack[depth] " of line " from[depth] : "nothing"))
            depth--
        }
        before = c; line = substr(line, 2)
    }
}
END { if (!bad && depth) { print FILENAME ": the " stack[depth] " of line " from[depth] " has no end"; exit 1 } }
AWK

# What the compiler cannot see: names that nobody defines, or only further down, calls with another number of arguments,
# fields that no struct has, and settings that a loader's group has not: changed(config.output; width = ...).
cat >"$t/names.awk" <<'AWK'
function wrong(text) { print text ": " $0; bad = 1 }
function arguments(text,   i, c, d, count) {       # of "f(...", up to its closing bracket; -1 where that is on another line
    count = 0; d = 0
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c ~ /[([{]/) d++
        else if (c ~ /[])}]/) { if (--d == 0) return count }
        else if (c == "," && d == 1) count++
        else if (c != " " && !count) count = 1
    }
    return -1
}
FNR == 1 { pass++ }
/^module LibBenzina/ { inside = 1 }
/^using \.LibBenzina$/ { inside = 0 }                 # its own end looks like any other
{
    rest = $0
    if (inside && match(rest, /^(mutable )?struct bzna_[a-z0-9_]+/)) { name = substr(rest, 1, RLENGTH); sub(/.* /, "", name); defined[name] = 1 }
    if (inside && match(rest, /^const [A-Za-z_0-9]+/)) defined[substr(rest, 7, RLENGTH - 6)] = 1
    if (inside && match(rest, /^(mutable )?struct bzna_[a-z0-9_]+/)) struct = name
    if (inside && match(rest, /^ [a-z_0-9]+::/)) {
        name = substr(rest, 2, RLENGTH - 3); field[name] = 1
        type = substr(rest, RLENGTH + 1); member[struct, name] = type
        while (pass == 1 && match(type, /bzna_[a-z0-9_]+/)) {
            if (!(substr(type, RSTART, RLENGTH) in defined)) wrong(substr(type, RSTART, RLENGTH) " is not defined yet")
            type = substr(type, RSTART + RLENGTH)
        }
    }
    if (inside && match(rest, /^bzna_[a-z0-9_]+\(/)) { name = substr(rest, 1, RLENGTH - 1); defined[name] = 1; arity[name] = arguments(substr(rest, RLENGTH)) }
    if (!inside && match(rest, /^function bzna_[a-z0-9_]+/)) { name = substr(rest, 10, RLENGTH - 9); local[name] = 1 }
    if (pass == 1) next
    if (!inside) {
        text = rest
        while (match(text, /(bzna|BZNA)_[A-Za-z0-9_]+/)) {
            name = substr(text, RSTART, RLENGTH); after = substr(text, RSTART + RLENGTH); text = after
            if (!(name in local) && !(name in defined)) wrong(name " is not in LibBenzina")
            if ((name in arity) && after ~ /^\(/ && (count = arguments(after)) != arity[name])
                wrong(name " takes " arity[name] " arguments, not " count)
        }
        text = rest
        while (match(text, /(^|[^A-Za-z0-9_.])(config|info|err|state|counts|sample|records|functions)(\.[a-z_0-9]+)+/)) {
            name = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH)
            n = split(name, names, ".")
            for (i = 2; i <= n; i++) if (!(names[i] in field)) wrong("no struct of LibBenzina has a field " names[i])
        }
        if (match(rest, /changed\(config\.[a-z_]+;/)) {
            name = substr(rest, RSTART + 15, RLENGTH - 16); group = member["bzna_loader_config", name]; text = substr(rest, RSTART + RLENGTH - 1)
            if (group == "") wrong("bzna_loader_config has no group " name)
            while (match(text, /[(;,] *[a-z_0-9]+ = /)) {
                name = substr(text, RSTART + 1, RLENGTH - 4); gsub(/ /, "", name); text = substr(text, RSTART + RLENGTH); settings++
                if (!((group, name) in member)) wrong(group " has no " name)
            }
        }
    }
}
END { if (settings < 25) { print "only " settings + 0 " settings were found"; bad = 1 } exit bad }
AWK

# Lines that go on (an open bracket, a comma or = at the end) as one.
cat >"$t/join.awk" <<'AWK'
{
    text = text (text == "" ? "" : " ") $0
    line = $0
    depth += gsub(/[([{]/, "", line) - gsub(/[])}]/, "", line)
    if (depth > 0 || $0 ~ /[,=] *$/) next
    gsub(/  +/, " ", text)
    print text; text = ""; depth = 0
}
AWK

# The C program: everything is a _Static_assert, at the line of the module that it is about.
cat >"$t/c.awk" <<'AWK'
function assert(condition, message) { printf "#line %d \"%s\"\n_Static_assert(%s, \"%s\");\n", begun, file, condition, message }
function trim(text) { gsub(/^[ \t\n]+|[ \t\n]+$/, "", text); return text }
function ctype(julia) {
    julia = trim(julia)
    if (julia ~ /^(Ptr|Ref)\{.*\}$/) return ctype(substr(julia, 5, length(julia) - 5)) " *"
    if (julia in types) return types[julia]
    if (julia ~ /^bzna_[a-z0-9_]+$/) return julia
    unknown[julia] = 1
    return "type_that_is_not_known_" julia
}
function declare(julia, name,   comma) {
    if (julia ~ /^NTuple\{/) {
        comma = index(julia, ",")
        return declare(trim(substr(julia, comma + 1, length(julia) - comma - 1)), name "[" substr(julia, 8, comma - 8) "]")
    }
    return ctype(julia) " " name
}
function split_top(text, parts,   i, c, d, count, start) {
    count = 0; start = 1; d = 0
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c ~ /[([{]/) d++
        if (c ~ /[])}]/) d--
        if (c == "," && !d) { parts[++count] = trim(substr(text, start, i - start)); start = i + 1 }
    }
    if (trim(substr(text, start)) != "") parts[++count] = trim(substr(text, start))
    return count
}
BEGIN {
    count = split("UInt8 uint8_t UInt16 uint16_t UInt32 uint32_t UInt64 uint64_t Int8 int8_t Int16 int16_t Int32 int32_t Int64 int64_t Float32 float " \
                  "Float64 double Cfloat float Cdouble double Cint int Cuint unsigned Csize_t size_t Cchar char Cvoid void", pairs, " ")
    for (i = 1; i < count; i += 2) types[pairs[i]] = pairs[i + 1]
    types["Cstring"] = "char *"
    print "#include <stddef.h>\n#include <stdint.h>\n#define const\n#include \"examples/stream/stream.h\"\n#include \"examples/formats/formats.h\""
    print "#define SAME(a, b) __builtin_types_compatible_p(__typeof__(a), __typeof__(b))"
    print "#define FIELD(type, name) (((type *)0)->name)"
}
# The header first: the names of every function's parameters.
FNR == NR { header = header " " $0; next }
FNR == 1 {
    count = split(header, statements, ";")
    for (i = 1; i <= count; i++) if (statements[i] ~ /BZNA_API.*bzna_[a-z0-9_]+\(/) {
        text = statements[i]; sub(/.*BZNA_API/, "", text)
        name = substr(text, 1, index(text, "(") - 1); sub(/.*[ *]/, "", name)
        sub(/^[^(]*\(/, "", text); sub(/\)[^)]*$/, "", text)
        parameters[name] = ""
        n = split(text, list, ",")
        for (k = 1; k <= n; k++) { p = list[k]; sub(/\[.*/, "", p); gsub(/[ \t]+$/, "", p); sub(/.*[ *]/, "", p); if (p != "void") parameters[name] = parameters[name] (k > 1 ? "," : "") p }
    }
}
{ begun = FNR }
/^(mutable )?struct bzna_[a-z0-9_]+ end$/ { next }
/^(mutable )?struct bzna_[a-z0-9_]+$/ { struct = $NF; members = ""; checks = 0; first = FNR; next }
struct != "" && /^    [a-z0-9_]+::/ {
    text = trim($0); name = text; sub(/::.*/, "", name); type = text; sub(/^[a-z0-9_]+::/, "", type)
    members = members "    " declare(type, name) ";\n"; names[++checks] = name; julia[checks] = type; line[checks] = FNR
    next
}
struct != "" && /^end/ {
    printf "struct jl_%s {\n%s};\n", struct, members
    own = "struct jl_" struct
    for (k = 1; k <= checks; k++) {
        begun = line[k]
        assert("offsetof(" struct ", " names[k] ") == offsetof(" own ", " names[k] ")", struct "." names[k] " lies elsewhere")
        assert("offsetof(" own ", " names[k] ") == " (k > 1 ? "offsetof(" own ", " names[k - 1] ") + sizeof FIELD(" own ", " names[k - 1] ")" : "0"), \
               "something is missing before " struct "." names[k])
        # A function pointer is a Ptr{Cvoid}; all else has its own type.
        if (julia[k] == "Ptr{Cvoid}" && names[k] ~ /^(alloc|release|read_at|write_at|size|close|log|transform|make|unpack|picture|read|locate|call|recognize|thread_begin|thread_end|inspect|decode|unwrap)$/)
            assert("__builtin_classify_type(FIELD(" struct ", " names[k] ")) == 5 && sizeof FIELD(" struct ", " names[k] ") == sizeof(void *)", \
                   struct "." names[k] " is no pointer")
        else if (struct == "bzna_stream_state" && julia[k] == "NTuple{128,UInt8}")       # a loader's state, as bytes
            assert("sizeof FIELD(" struct ", " names[k] ") == sizeof FIELD(" own ", " names[k] ")", struct "." names[k] " has another size")
        else assert("SAME(FIELD(" struct ", " names[k] "), FIELD(" own ", " names[k] "))", struct "." names[k] " is no " julia[k])
    }
    begun = first
    assert("sizeof(" struct ") == sizeof(" own ")", struct " has another size")
    structs++; struct = ""
    next
}
/^const BZNA_/ {
    name = $2; value = $4; sub(/^[A-Za-z0-9{}]+\(/, "", value); sub(/\).*/, "", value)
    if ($4 ~ /^typemax\(UInt64\)/) value = "UINT64_MAX"
    if ($4 ~ /^Ptr/) name = "(intptr_t)" name
    assert(name " == " value, $2 " has another value"); constants++
    next
}
/^const bzna_status =/ { assert("SAME((bzna_status)0, (" ctype($4) ")0)", "bzna_status") }
# Calls and callbacks may go over several lines.
/@ccall libbenzina(_stream)?\./ { call = $0; call_line = FNR; sub(/.*@ccall libbenzina(_stream)?\./, "", call); wanted = 1 }
wanted && call_line != FNR { call = call " " $0 }
wanted && call ~ /\)::[A-Za-z_0-9{}]+ *$/ {
    wanted = 0; begun = call_line
    name = substr(call, 1, index(call, "(") - 1)
    result = call; sub(/.*\)::/, "", result)
    inner = substr(call, length(name) + 2); sub(/\)::[A-Za-z_0-9{} ]+$/, "", inner)
    n = split_top(inner, parts); text = ""; order = ""
    for (k = 1; k <= n; k++) {
        p = parts[k]; type = p; sub(/^.*::/, "", type); sub(/::.*/, "", p)
        text = text (k > 1 ? ", " : "") ctype(type); order = order (k > 1 ? "," : "") p
    }
    assert("SAME(&" name ", " ctype(result) " (*)(" (n ? text : "void") "))", name " has another signature")
    if (order != parameters[name]) assert("0", name ": parameters (" order "), in the header (" parameters[name] ")")
    calls++
}
/@cfunction\(/ {
    text = $0; sub(/.*@cfunction\(/, "", text); sub(/\)+ *$/, "", text)
    name = text; sub(/,.*/, "", name); inner = text; sub(/^[^(]*\(/, "", inner); sub(/\).*/, "", inner)
    result = substr(text, length(name) + 2); sub(/,.*/, "", result)
    n = split_top(inner, parts); args = ""
    for (k = 1; k <= n; k++) args = args (k > 1 ? ", " : "") ctype(parts[k])
    # bzna_STRUCT_FIELD is what that field calls.
    field = name; owner = "bzna_source"
    if (sub(/^bzna_context_/, "", field)) owner = "bzna_context_config"
    else if (sub(/^bzna_pipeline_/, "", field)) owner = "bzna_loader_pipeline"
    else if (sub(/^bzna_rule_/, "", field)) owner = "bzna_rule"
    else if (sub(/^bzna_provider_/, "", field)) owner = "bzna_provider"
    else sub(/^bzna_source_/, "", field)
    assert("SAME(FIELD(" owner ", " field "), " ctype(result) " (*)(" args "))", name " is not what " owner "." field " calls")
    callbacks[name] = ctype(result) "(" args ")"
}
/^function bzna_(source|context|pipeline|rule|provider)_/ {
    name = $2; sub(/\(.*/, "", name); text = $0; sub(/^[^(]*\(/, "", text); result = text; sub(/.*\)::/, "", result); sub(/\).*/, "", text)
    n = split_top(text, parts); args = ""
    for (k = 1; k <= n; k++) { type = parts[k]; sub(/^.*::/, "", type); args = args (k > 1 ? ", " : "") ctype(type) }
    written[name] = ctype(result) "(" args ")"; count_written++
}
END {
    for (name in callbacks) if (callbacks[name] != written[name]) assert("0", "@cfunction of " name " has " callbacks[name] ", the function " written[name])
    if (wanted) assert("0", "a @ccall has no end")
    for (type in unknown) assert("0", type " is no type that C has")
    printf "/* %d structs, %d constants, %d calls, %d callbacks */\n", structs, constants, calls, count_written
}
AWK

# whole FILE: a module with the files that it includes, and with those that these include
whole() {
    awk -v folder="$(dirname "$1")" '
        function put(path,   line, name) {
            while ((getline line < path) > 0)
                if (match(line, /^include\("[^"]*"\)/)) { name = substr(line, 10, RLENGTH - 11); put(folder "/" name) } else print line
            close(path)
        }
        BEGIN { put(ARGV[1]) }' "$1"
}

# examine FILE: everything that can be said about a module without Julia, to $t/said; status 0 where there is nothing to
# say
examine() {
    : >"$t/said"
    awk -f "$t/strip.awk" "$1" >"$t/bare.jl" 2>"$t/said" || return 1
    awk -f "$t/balance.awk" "$t/bare.jl" >"$t/said" 2>&1 || return 1
    awk -f "$t/join.awk" "$t/bare.jl" >"$t/joined.jl"
    awk -f "$t/names.awk" "$t/joined.jl" "$t/joined.jl" >"$t/said" 2>&1 || return 1
    awk -v file="$module" -f "$t/c.awk" "$t/headers.h" "$t/bare.jl" >"$t/check.c" 2>"$t/said" || return 1
    ${CC:-cc} -std=gnu11 -fsyntax-only -I. -Iexamples/formats "$t/check.c" >"$t/said" 2>&1
}

whole "$module" >"$t/module.jl"
# The headers without comments: the scanner reads them once a mutation.
awk '{
    line = $0; code = ""
    while (line != "") {
        if (inside && !(i = index(line, "*/"))) break
        if (inside) { line = substr(line, i + 2); inside = 0; continue }
        if (!(i = index(line, "/*"))) { code = code line; break }
        code = code substr(line, 1, i - 1); line = substr(line, i + 2); inside = 1
    }
    if (code ~ /[^ \t]/) print code }' benzina.h examples/formats/formats.h examples/stream/stream.h >"$t/headers.h"
examine "$t/module.jl" && agrees=1
if [ -n "$agrees" ]; then pass; else fail "Benzina.jl agrees with benzina.h" "$(grep -v ': note: ' "$t/said" | head -n 20)"; fi
# That something was looked at: numbers may grow.
found=$(tail -n 1 "$t/check.c" 2>/dev/null)
if printf '%s\n' "$found" | awk '$2 >= 11 && $4 >= 20 && $6 >= 20 && $8 >= 2 { fine = 1 } END { exit !fine }'; then pass
else fail "the scanner finds the module's structs, constants, calls and callbacks" "$found"; fi

# Mutations, each a sed program: a module with such a slip must not pass. They say nothing while the module itself does
# not. Without TEST_ALL, only every fifth is tried.
[ -n "$TEST_ALL" ] || echo "LEFT test_julia.sh: four of five slips that must be noticed"
number=0
[ -n "$agrees" ] &&
while IFS= read -r mutation; do
    [ -n "$mutation" ] || continue
    number=$((number + 1))
    [ -n "$TEST_ALL" ] || [ $((number % 5)) -eq 1 ] || continue
    sed "$mutation" "$t/module.jl" >"$t/mutant.jl"
    if cmp -s "$t/module.jl" "$t/mutant.jl"; then fail "the mutation changes something" "$mutation"
    elif examine "$t/mutant.jl"; then fail "a slip in the module is noticed" "$mutation"
    else pass; fi
done <<'MUTATIONS'
s/timeout_ns::Int64, batch::Ptr{Ptr{bzna_batch}},$/timeout_ns::Int32, batch::Ptr{Ptr{bzna_batch}},/
s/batch::Ptr{Ptr{bzna_batch}},$/batch::Ptr{bzna_batch},/
s/bzna_batch_release(batch::Ptr{bzna_batch})::bzna_status/bzna_batch_release(batch::Ptr{bzna_batch})::Cvoid/
s/bzna_batch_error(batch::Ptr{bzna_batch}, slot::UInt32, /bzna_batch_error(batch::Ptr{bzna_batch}, /
s/bzna_dataset_close(dataset::Ptr{bzna_dataset})/bzna_dataset_close(dataset::Ptr{bzna_loader})/
s/libbenzina.bzna_loader_save(/libbenzina.bzna_loader_safe(/
s/state::Ref{bzna_loader_state}, struct_size::Csize_t/state::Ref{bzna_statistics}, struct_size::Csize_t/
s/struct_size::Csize_t,$/struct_size::Cint,/
s/(dataset::Ptr{bzna_dataset}, index::UInt64, target/(dataset::Ptr{bzna_dataset}, target::UInt64, target/
s/^    native_code::Int32$/    native_code::UInt32/
s/message::NTuple{488,Cchar}/message::NTuple{484,Cchar}/
/^    fill_space::UInt32/d
/^    reserved0::UInt32/d
s/^    flip_h::Float64/    flip_h::Float32/
s/^    flip_v::Float64/    flip_v::UInt32/
s/^    shape::NTuple{6,Int64}/    shape::NTuple{4,Int64}/
s/^    targets::Ptr{Int64}/    targets::Ptr{Int32}/
s/^    buffers::Ptr{bzna_buffer}/    buffers::Ptr{Cvoid}/
s/^    kind::Int32/    kind::UInt32/
s/^    output::bzna_loader_output/    output::bzna_loader_order/
s/^    read::bzna_loader_read/    reading::bzna_loader_read/
/^struct bzna_buffer/,/^end/d
/^    reserved::NTuple{4,UInt64}/d
s/^    capacity::UInt64/    capacities::UInt64/
s/BZNA_AGAIN = Int32(2)/BZNA_AGAIN = Int32(3)/
s/BZNA_SPLIT_TEST = UInt32(3)/BZNA_SPLIT_TEST = UInt32(4)/
s/index::UInt64, sample::Ptr{bzna_writer_sample}, timeout_ns::Int64,$/index::UInt64, sample::Ptr{bzna_writer_sample}, timeout_ns::Float64,/
s/^    thumb::Ptr{bzna_image}/    thumb::Ptr{bzna_sample_ref}/
s/transform_user = transform_user)/transform_data = transform_user)/
s/^function bzna_pipeline_transform(user::Ptr{Cvoid}, sample::Ptr{bzna_sample_info}/function bzna_pipeline_transform(user::Ptr{Cvoid}, sample::Ptr{bzna_random}/
s/BZNA_LAST_PAD = UInt32(2)/BZNA_LAST_PADDED = UInt32(2)/
s/const bzna_status = Int32/const bzna_status = Int64/
s/@cfunction(bzna_source_read_at, Int64/@cfunction(bzna_source_read_at, Int32/
s/@cfunction(bzna_context_log, Cvoid, (Ptr{Cvoid}, Int32, /@cfunction(bzna_context_log, Cvoid, (Ptr{Cvoid}, /
s/@cfunction(bzna_source_size, Int64, (Ptr{Cvoid},))/@cfunction(bzna_source_size, Int64, (Ptr{Cvoid}, UInt64))/
s/bzna_source_read_at(user::Ptr{Cvoid}, offset::UInt64, dst/bzna_source_read_at(user::Ptr{Cvoid}, offset::Int64, dst/
s/changed(config.output; width = size\[1\], height = /changed(config.output; width = size[1], high = /
s/changed(config.order; kind = /changed(config.decode; kind = /
s/changed(config.filter; antialias/changed(config.filters; antialias/
s/(config.color; mean_image = /(config.color; mean_images = /
s/has_target = something(target, 0), target/has_targets = something(target, 0), target/
s/info.image.shape/info.image.shapes/
s/info.last_of_epoch != 0/info.is_last != 0/
s/bzna_batch_release(handle)/bzna_batch_release(handle, err)/
s/bzna_loader_save(loader.handle, state, /bzna_loader_save(loader.handle, /
s/^    check(bzna_loader_statistics(loader_handle(loader), counts, sizeof(bzna_statistics), err), err)/    check(bzna_loader_statistics(loader_handle(loader), counts, sizeof(bzna_statistics)), err)/
s/status == BZNA_E_NOT_FOUND$/status == BZNA_E_FOUND/
s/^end # module LibBenzina/# module LibBenzina/
s/settings.buffer ? batch : nothing))$/settings.buffer ? batch : nothing)/
s/^    finalizer(owner(data)) do _/    finalizer(owner(data))/
s/^        elseif status == BZNA_AGAIN/        if status == BZNA_AGAIN/
s/^column(first) = copy/column(first] = copy/; s/    column(first) = copy/    column(first] = copy/
s/ is closed", nothing, 0))$/ is closed, nothing, 0))/
s/^    shards_left_out::UInt32/    shards_left_out::UInt64/
s/^    loader::NTuple{128,UInt8}/    loader::NTuple{120,UInt8}/
s/bzna_stream_source(stream::Ptr{bzna_stream}, index::UInt64)/bzna_stream_source(stream::Ptr{bzna_stream}, index::UInt32)/
s/@cfunction(bzna_rule_call, Int32/@cfunction(bzna_rule_call, Int64/
s/out::Ptr{Cvoid}, out_bytes::UInt64, count::Ptr{UInt64})::Int32/out::Ptr{Cvoid}, count::Ptr{UInt64}, out_bytes::UInt64)::Int32/
s/bzna_provider_read(user::Ptr{Cvoid}, index::UInt64, field::UInt32/bzna_provider_read(user::Ptr{Cvoid}, index::UInt64, field::UInt64/
s/bzna_geometry_box(geometry::Ref{bzna_geometry}, area::Ptr{Float64}/bzna_geometry_box(geometry::Ref{bzna_geometry}, area::Ptr{Float32}/
s/libbenzina_stream.bzna_stream_save(/libbenzina_stream.bzna_stream_safe(/
MUTATIONS

# count: adds the closing line of runtests.jl in $t/out to this suite's
count() {
    line=$(grep -E '^examples/julia/test/runtests.jl: [0-9]+ passed, [0-9]+ failed$' "$t/out" | tail -n 1)
    if [ -z "$line" ]; then fail "$1 ends with a count" "$(tail -n 40 "$t/out")"; return; fi
    grep '^SKIP ' "$t/out" && skipped=$((skipped + $(grep -c '^SKIP ' "$t/out")))
    passed=$((passed + $(echo "$line" | sed 's/.*: \([0-9]*\) passed.*/\1/')))
    left=$(echo "$line" | sed 's/.*, \([0-9]*\) failed/\1/')
    if [ "$left" -gt 0 ]; then failed=$((failed + left)); echo "FAIL $1"; grep -v '^examples/julia' "$t/out" | tail -n 60; fi
}
if [ -n "$SANITIZE" ]; then
    skip "examples/julia/test/runtests.jl" \
        "the library was built with a sanitizer, which Julia would have to be started with"
else
    if command -v julia >/dev/null 2>&1; then
        BENZINA_LIBRARY=$(cd "$build" &&
            pwd)/libbenzina.so JULIA_NUM_THREADS=2 julia --startup-file=no \
            --project=$package $package/test/runtests.jl >"$t/out" 2>&1
        count "examples/julia/test/runtests.jl"
    else
        skip "examples/julia/test/runtests.jl" "there is no julia [julia]"
    fi
    # The Julia of Debian 11, in a root of its own, with the libraries of that time.
    if [ -z "$TEST_ALL" ]; then echo "LEFT runtests.jl with Julia 1.5"
    elif [ -e build/julia/root/made ]; then
        sh tests/make/julia.sh build/julia >"$t/out" 2>&1
        count "examples/julia/test/runtests.jl with Julia 1.5"
    else
        skip "examples/julia/test/runtests.jl with Julia 1.5" "build/julia is not there: \`make test-julia\` makes it"
    fi
fi
echo "tests/bindings/test_julia.sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
