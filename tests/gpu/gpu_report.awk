# gpu_report.awk - what gpu.sh has found, in short: twelve lines that say most, then what ended badly, then tables, at most `most` characters.
# Lines of its input, tabs between their parts: S name status seconds; F name figure (a line of JSON); L name line-of-the-log.

function number(line, key) { return match(line, "\"" key "\": [-0-9.e+]+") ? substr(line, RSTART + length(key) + 4, RLENGTH - length(key) - 4) + 0 : 0 }
function has(line, key) { return match(line, "\"" key "\": [-0-9.e+]+") }
function string(line, key,    s) {
    if (!match(line, "\"" key "\": \"")) return ""
    s = substr(line, RSTART + RLENGTH)
    gsub(/\\\\/, "\001", s); gsub(/\\"/, "\002", s)
    sub(/".*/, "", s)
    gsub(/\001/, "\\", s); gsub(/\002/, "\"", s)
    return s
}
function short(text, length_) { return length(text) > length_ ? substr(text, 1, length_ - 3) "..." : text }
function add(to, separator, text) { return to == "" ? text : to separator text }
function plain(text) { sub(/^ */, "", text); return mark != "" && index(text, mark) == 1 ? substr(text, length(mark) + 1) : text }
function reason(name) { return ended(name) != "" ? ended(name) : lines[name] ? short(plain(logs[name, lines[name]]), 150) : "nothing" }
# Of checks: whether they passed.
function checked(name,    i, line) {
    if (ended(name) != "") return ended(name)
    for (i = 1; i <= lines[name]; i++) if (logs[name, i] ~ /^SKIP/) return short("skipped: " logs[name, i], 120)
    return "ok"
}
function ended(name) { return status[name] == "" ? "not run" : status[name] == "ok" ? "" : status[name] }
function say(text) { printf "%s%s\n", mark, text; used += length(mark text) + 1 }
function room(text) { return used + length(mark text) + 1 <= most }
function rate(value) { return sprintf("%.0f", value) }
function p50(line) {
    return number(line, "map_p50_us") ? sprintf(" (%.1f, %.1f, %.1f)", number(line, "decode_p50_us"), number(line, "map_p50_us"), number(line, "unmap_p50_us")) : ""
}

BEGIN { FS = "\t"; codecs = "H.264 H.265 AV1 JPEG" }

$1 == "S" { name = $2; order[++sections] = name; status[name] = $3; seconds[name] = $4; next }
$1 == "L" { logs[$2, ++lines[$2]] = $3 }
$1 == "L" && $2 == "environment" && $3 ~ /^found / { found = add(found, ", ", substr($3, 7)) }
$1 == "L" && $2 == "scaling" && $3 ~ /^SCALING [^ ]+ +[0-9]+ threads / {
    split($3, word, " +")
    if (!(word[2] in scaled)) scaled_order[++scaled_sets] = word[2]
    scaled[word[2]] = add(scaled[word[2]], ", ", word[3] ": " word[5] " (" word[7] ")")
}
$1 == "L" && $2 == "gate" && $3 ~ /the first one (holds|is overwritten)/ {
    line = $3; sub(/^ */, "", line); codec = line; sub(/:.*/, "", codec)
    said = line ~ /too late/ ? "was not tried (the picture was done too late)" : line ~ /another surface/ ? "was not tried (another surface)" : \
        line ~ /the first one holds/ ? "holds" : "IS OVERWRITTEN"
    gate = add(gate, "; ", codec " " said (line ~ /the next one is wrong/ ? ", the next picture IS WRONG" : ""))
}
$1 == "L" && $2 == "md5" && match($3, /[0-9]+ of [0-9]+ (frames )?equal/) {
    split(substr($3, RSTART, RLENGTH), word, " ")
    md5_equal += word[1]; md5_all += word[3]
    refused = match($3, /[0-9]+ refused/) ? substr($3, RSTART, RLENGTH) + 0 : 0
    failures = match($3, /[0-9]+ failed/) ? substr($3, RSTART, RLENGTH) + 0 : 0
    md5_refused += refused; md5_failed += failures
    if (word[1] + refused < word[3]) { line = $3; sub(/^ */, "", line); md5_wrong = add(md5_wrong, "; ", short(line, 150)) }
}
$1 != "F" { next }
{ line = $3; kind = string(line, "kind") }
kind == "text" { known[string(line, "what")] = string(line, "value") }
kind == "kernel equality" {
    differ = number(line, "different") + number(line, "beside")
    error = string(line, "error")
    said = error != "" ? "FAILED: " short(error, 120) : !number(line, "values") ? "NOT SEEN" : !differ ? "equal" : \
        sprintf("WRONG: %d of %d values differ, by at most %g, first %s", number(line, "different"), number(line, "values"), number(line, "largest"), string(line, "first"))
    kernels = add(kernels, "; ", string(line, "kernel") " " said (number(line, "beside") ? ", and it writes beside its output" : ""))
}
kind == "caps" && number(line, "supported") {
    at = string(line, "codec") SUBSEP string(line, "chroma")
    caps[at] = add(caps[at], "/", number(line, "depth"))
    engines[string(line, "codec")] = number(line, "engines")
}
kind == "caps" { caps_seen++ }
kind == "hand step" { step[string(line, "codec")] = string(line, "step") }
kind == "hand" {
    codec = string(line, "codec")
    hand[codec] = line ~ /"refused": true/ ? "THE DRIVER DOES NOT DECODE IT" : \
        sprintf("asks %d surfaces; decode %s%.0f us; status %s; map %s%.0f us, pitch %d; after it %s; pixels %s", number(line, "surfaces_asked"), \
                number(line, "decode") ? "FAILED (" number(line, "decode") ") " : "", number(line, "decode_us"), string(line, "status"), \
                number(line, "map") ? "FAILED (" number(line, "map") ") " : "", number(line, "map_us"), number(line, "pitch"), string(line, "status_after_map"), \
                string(line, "pixels") == "right" ? "right" : toupper(string(line, "pixels")))
}
kind == "self-check" {
    at = string(line, "codec") " " number(line, "depth")
    if (!(at in check_state)) check_order[++checks] = at
    if (string(line, "state") == "passed" && check_state[at] !~ /^passes/) check_state[at] = "passes"
    else if (check_state[at] !~ /^passes/) {
        if (why[at] == "") why[at] = short(string(line, "message"), 90)
        check_state[at] = "FAILS: " why[at]
        if (string(line, "state") == "refused") check_state[at] = "is not decoded here"
    }
}
kind == "uploads" {
    error = string(line, "error"); differ = number(line, "different")
    uploads = error != "" ? "FAILED: " error : differ ? differ " of " number(line, "values") " values DIFFER" : "equal the CPU's"
}
kind == "engine fit" && number(line, "depth") == 4 {
    a_us = number(line, "a_us"); b_us = number(line, "b_us_per_byte"); c_us = number(line, "c_us_per_macroblock")
    fit = sprintf("us = %.1f + %.5f x bytes + %s x macroblocks (%d points, at most %.0f %% off)", a_us, b_us, has(line, "c_us_per_macroblock") ? sprintf("%.5f", c_us) : "?", \
                  number(line, "points"), number(line, "worst_percent"))
    fit = fit sprintf("; 20 kB of 512x512: %.0f us; without its padding of 500x375: %.0f us", a_us + 20000 * b_us + 1024 * c_us, a_us + 20000 * b_us + 768 * c_us)
}
kind == "bare sessions" && line ~ /h265_crf20/ {
    r = number(line, "images_per_second")
    if (number(line, "contexts") == 1) {
        if (order_of_sessions !~ (" " number(line, "sessions") ":")) order_of_sessions = order_of_sessions " " number(line, "sessions") ": " rate(r) p50(line)
        if (number(line, "sessions") == 1) one = r
        if (r > bare) bare = r
    } else if (r > spread) spread = r
}
kind == "contexts" {
    r = number(line, "images_per_second")
    contexts = contexts " " number(line, "contexts") ": " rate(r) p50(line)
    if (number(line, "contexts") == 1) single = r
    else if (r > several) several = r
}
kind == "processes" {
    r = number(line, "images_per_second")
    processes = processes " " number(line, "processes") ": " rate(r) p50(line)
    if (number(line, "processes") == 1) alone = r
    else if (r > many) many = r
}
kind == "end to end" && line ~ /"beside": "nothing"/ && line ~ /float32/ && line ~ /"output": "device"/ && line ~ /"calls_timed": false/ {
    archive = string(line, "archive")
    r = number(line, "images_per_second")
    if (archive == "jpeg") jpeg = r
    better = r > best && archive == best_of || best_of == "" || archive == "h265_crf20" && best_of == "jpeg"
    if ((archive == "h265_crf20" || archive == "jpeg") && better) {
        best = r; best_of = archive; best_sessions = number(line, "sessions"); loader = string(line, "limits")
        cpu = number(line, "core_seconds_per_1000"); gpu = number(line, "gpu_utilization")
    }
}
kind == "hybrid" {
    way = string(line, "way"); r = number(line, "images_per_second"); archive = string(line, "archive")
    all = number(line, "samples_nvdec") + number(line, "samples_software")
    ways[archive] = add(ways[archive], ", ", way " " rate(r) (way == "hybrid" && all ? sprintf(" (%.0f %% by processors)", 100 * number(line, "samples_hybrid") / all) : ""))
    if (ways[archive] !~ /,/) hybrid_order[++hybrids] = archive
}
kind == "grid" && string(line, "what") == "loader" { grid = grid " " number(line, "sessions") "x" number(line, "depth") ": " rate(number(line, "images_per_second")) }
kind == "waiting" && string(line, "what") == "loader" {
    waiting = add(waiting, ", ", string(line, "context") " " string(line, "waits") sprintf(" %.3f (%.2f)", number(line, "core_seconds_per_1000"), number(line, "status_calls_per_picture")))
}
kind == "loaders" { several_loaders = add(several_loaders, ", ", string(line, "what") " " (string(line, "reason") != "" ? "not measured" : rate(number(line, "images_per_second")))) }
kind == "kernel" && line ~ /float32/ && number(line, "us_per_picture") > 0 { if (1e6 / number(line, "us_per_picture") > kernel) kernel = 1e6 / number(line, "us_per_picture") }

# The first limit in this order that explains the best rate, and the setting to change.
function limit(    ceiling, processors, lock) {
    if (!best) return "was not measured (" (ended("end") == "" ? "no data" : ended("end")) ")"
    ceiling = one * engines["H.265"]; processors = best * cpu / 1000
    lock = bare && spread / bare > 1 ? spread / bare : 1
    if (alone && many / alone > lock) lock = many / alone
    if (single && several / single > lock) lock = several / single
    what = best_of == "jpeg" && processors >= 0.7 * cores ? "the CPU, which decodes JPEG: more processors, or NVDEC and bzna pack" : \
        ceiling && best >= 0.85 * ceiling ? "the video engines: fewer bytes (bzna pack --crf) or smaller frames (--frame) raise it" : \
        processors >= 0.85 * cores ? "the CPU: more processors" : \
        loader == "read" ? "reading: more loader_config.read.threads, or a faster disk" : \
        lock >= 1.15 ? "one context's lock: several processes or contexts have " sprintf("%.2f", lock) " times as much; run one loader a process" : \
        (kernel && best >= 0.7 * kernel) || gpu >= 95 ? "the multiprocessors: float16, or smaller outputs" : \
        loader == "consumer" ? "the consumer" : "none of engines, CPU, reading, lock and multiprocessors alone: try context_config.sessions_per_engine 3 and 4"
    return sprintf("%s pictures/s of 224x224 (%s, %d sessions), %.1f of %d processors", rate(best), best_of, best_sessions, processors, cores) \
        sprintf("; engines %d x %.0f bare, bare %.0f, kernel alone %.0f, JPEG by the CPU %.0f; limited by %s", engines["H.265"], one, bare, kernel, jpeg, what)
}

function environment(    driver, library) {
    driver = known["driver"]
    if (driver == "" || driver ~ /^not known/) { driver = known["/proc/driver/nvidia/version"]; sub(/.*Kernel Module */, "", driver); if (driver == "" || driver ~ /^cannot/) driver = "version not known" }
    library = known["libnvcuvid.so.1"]
    if (library ~ /^not found/)
        library = "NOT FOUND (NVIDIA_DRIVER_CAPABILITIES: " known["NVIDIA_DRIVER_CAPABILITIES"] "; files of the driver: " (found == "" ? "none" : short(found, 300)) ")"
    return "driver " short(driver, 60) ", CUDA " (known["CUDA of the driver"] == "" ? "?" : known["CUDA of the driver"]) "; " \
        (known["device"] == "" ? "NO DEVICE: " (known["the library opens the device"] == "" ? ended("environment") : known["the library opens the device"]) : known["device"]) \
        "; MIG " (known["MIG"] == "" ? "?" : known["MIG"]) "; " cores " processors; libnvcuvid: " library "; NVDEC: " (known["NVDEC"] == "" ? "?" : known["NVDEC"]) \
        (known["NVDEC engines"] + 0 ? ", " known["NVDEC engines"] " engines" : "")
}

function capabilities(    i, k, n, all, chromas, text, one_) {
    n = split(codecs, all, " "); split("gray 4:2:0 4:2:2 4:4:4", chromas, " ")
    for (i = 1; i <= n; i++) {
        one_ = ""
        for (k = 1; k <= 4; k++) if ((all[i], chromas[k]) in caps) one_ = add(one_, ", ", chromas[k] " " caps[all[i], chromas[k]])
        text = add(text, "; ", all[i] " " (one_ == "" ? "none" : one_ " bits (" engines[all[i]] " engines)"))
    }
    return caps_seen ? text : "not asked: " (ended("capabilities") == "" ? logs["capabilities", 1] : ended("capabilities"))
}

function by_hand(codec, section) {
    if (hand[codec] != "") return codec ": " hand[codec] (step[codec] != "" && step[codec] != "done" ? "; then " ended(section) " in " step[codec] : "")
    return codec ": " (step[codec] != "" ? toupper(substr(ended(section), 1, 1)) substr(ended(section), 2) " in " step[codec] : ended(section))
}

function scaling(    i, text) {
    for (i = 1; i <= scaled_sets; i++) text = add(text, "; ", scaled_order[i] " " scaled[scaled_order[i]])
    return text == "" ? reason("scaling") : text (ended("scaling") == "" ? "" : "; " ended("scaling"))
}

# Engines and processors together, and how sessions are used.
function together(    i, text) {
    for (i = 1; i <= hybrids; i++) text = add(text, "; ", hybrid_order[i] " " ways[hybrid_order[i]])
    return "hybrid, pictures/s by who decodes: " (text == "" ? reason("hybrid") : text) \
        " | loader by sessions x depth:" (grid == "" ? " " reason("grid") : grid) \
        " | waiting, core-seconds for 1,000 pictures (status calls a picture): " (waiting == "" ? reason("waiting") : waiting) \
        " | loaders, pictures/s: " (several_loaders == "" ? reason("loaders") : several_loaders)
}

function self_check(    i, text) {
    for (i = 1; i <= checks; i++) text = add(text, "; ", check_order[i] " bits " check_state[check_order[i]])
    if (ended("selfcheck") != "") text = add(text, "; ", ended("selfcheck"))
    return text
}

# The last lines of a log that say something.
function tail(name, count,    i, first) {
    first = lines[name] - count + 1
    for (i = (first < 1 ? 1 : first); i <= lines[name]; i++) if (logs[name, i] !~ /^ *$/ && room("    " short(plain(logs[name, i]), 200))) say("    " short(plain(logs[name, i]), 200))
}

function table(name, most_lines,    i) {
    if (!lines[name]) return
    if (!room("== " name)) return
    say("== " name)
    for (i = 1; i <= lines[name] && i <= most_lines; i++) {
        text_ = logs[name, i]
        if (mark != "" && index(text_, mark) == 1) text_ = substr(text_, length(mark) + 1)
        if (text_ ~ /^ *$/) continue
        text_ = short(text_, 190)
        if (!room(text_)) return
        say(text_)
    }
}

END {
    say("1 environment: " environment())
    say("2 kernels: " (kernels == "" ? "not compared: " ended("kernels") : kernels) (uploads == "" ? "" : "; batches that the CPU decodes and the GPU warps " uploads))
    say("3 capabilities: " capabilities())
    say("4 by hand: " by_hand("H.265", "hand265") " | " by_hand("H.264", "hand264"))
    say("5 self-check: " short(self_check(), 700))
    say("6 gate (is a surface free when unmapped?): " (gate == "" ? reason("gate") : gate (ended("gate") == "" ? "" : "; " ended("gate"))))
    say("7 MD5: " (md5_all ? md5_equal " of " md5_all " frames equal, " md5_refused " refused, " md5_failed " failed" (md5_wrong == "" ? "" : "; WRONG: " short(md5_wrong, 500)) : "none compared: " reason("md5")) \
        "; batches " checked("batches") "; surfaces " checked("surfaces"))
    say("8 one engine: " (fit == "" ? "not measured: " reason("engine") : fit))
    say("9 pictures/s, us of half of the calls (decode, map, unmap): sessions" (order_of_sessions == "" ? " " ended("sessions") : order_of_sessions) "; contexts" (contexts == "" ? " " ended("contexts") : contexts) \
        "; processes" (processes == "" ? " " ended("processes") : processes))
    say("10 end to end: " limit())
    say("11 CPU alone, pictures/s by decoder threads (share of one thread's rate each; aim: 0.9 with 8, 0.8 with 16): " scaling())
    say("12 together: " together())
    text_ = ""
    for (i = 1; i <= sections; i++) text_ = add(text_, ", ", order[i] " " (status[order[i]] == "ok" ? seconds[order[i]] " s" : status[order[i]] ~ /^skipped/ ? "skipped" : toupper(status[order[i]])))
    say("sections: " text_)
    for (i = 1; i <= sections; i++) if (status[order[i]] !~ /^(ok|skipped)/) { say("-- " order[i] ": " status[order[i]]); tail(order[i], 6) }
    table("scaling", 30); table("end", 16); table("hybrid", 8); table("loaders", 8); table("waiting", 10); table("grid", 20); table("sessions", 18); table("contexts", 12); table("processes", 4); table("engine", 18); table("calls", 14); table("beside", 6); table("kernel", 18)
    table("ptx", 8); table("memory", 6); table("decoders", 4); table("parser", 4); table("peers", 6); table("surfaces", 8); table("environment", 40)
}
