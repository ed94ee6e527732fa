#!/bin/sh
# test_view.sh - bzna sheet and bzna view: what stands on the sheet, and how a browser shows and filters the page
#
#     sh tests/tool/test_view.sh build/bzna build        from the repository's root
#
# Prints FAIL and SKIP lines, and a count last. Without chromium, the page is not opened; without python3 and PIL,
# nobody looks at pixels.
bzna=${1:?usage: sh tests/tool/test_view.sh build/bzna build}
build=${2:?usage: sh tests/tool/test_view.sh build/bzna build}
t=$(mktemp -d "${TMPDIR:-/tmp}/test_view.XXXXXX") || exit 1
trap 'rm -rf "$t"' EXIT
trap 'exit 1' HUP INT TERM
passed=0 failed=0 skipped=0
pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAIL $1"; shift; for line; do printf '%s\n' "$line" | sed 's/^/  /'; done; }
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }
same() { if [ "$2" = "$3" ]; then pass; else fail "$1" "is  $2" "not $3"; fi; }
finish() { echo "tests/tool/test_view.sh: $passed passed, $failed failed, $skipped skipped"; [ "$failed" -eq 0 ]; exit; }
for file in "$bzna" "$build/draw_pictures"; do [ -e "$file" ] || { skip "tests/tool/test_view.sh" "$file is not there"; finish; }; done
for python in "$PYTHON" python3 /usr/bin/python3; do "$python" -c 'import PIL.Image' 2>/dev/null && break; python=; done

# 24 pictures of four classes, a damaged one, and one whose name and bytes would be HTML.
"$build/draw_pictures" "$t/pictures" 24 || exit 1
first=$(find "$t/pictures" -name '*.ppm' | sort | head -n 1)
head -c 900 "$first" > "$t/pictures/charts/01b.ppm"
printf 'no picture <script>document.title = 1</script>' > "$t/pictures/shapes/<b>&\"x.jpg"

# ---- the sheet ----

status=0; "$bzna" sheet "$t/pictures" -o "$t/sheet.png" --batch 9 --size 64 --warp center > "$t/out" 2> "$t/err" || status=$?
same "a sheet with a damaged sample: exit status" "$status" 1
same "a sheet with a damaged sample says how many failed" "$(cat "$t/err")" "bzna: 1 of 9 samples failed"
"$bzna" sheet "$t/pictures" -o "$t/again.png" --batch 9 --size 64 --warp center 2> "$t/err"
if cmp -s "$t/sheet.png" "$t/again.png"; then pass; else fail "the same options give the same sheet"; fi
status=0; "$bzna" sheet "$t/pictures" -o "$t/draws.png" --index 0 --batch 4 --size 64 2> "$t/err" || status=$?
same "one sample, drawn four times" "$status" 0
status=0; "$bzna" sheet "$t/pictures" -o "$t/colors.png" --index 0 --batch 4 --size 64 --contrast 0.5 --hue 0.5 --random-h 90 --random-l 30 --random-s 60 \
    --max-random-contrast 0.2 --max-random-illumination 20 2> "$t/err" || status=$?
same "one sample in other colors" "$status" 0
if cmp -s "$t/draws.png" "$t/colors.png"; then fail "contrast, hue and MXNet's colors change the sheet"; else pass; fi
status=0; "$bzna" sheet "$t/pictures" -o "$t/x.png" --index 99 2> "$t/err" || status=$?
same "a sample that is not there: exit status" "$status" 1
status=0; "$bzna" sheet "$t/pictures" 2> "$t/err" || status=$?
same "a sheet without -o" "$status" 2
"$bzna" batch "$t/pictures" -o "$t/batch" --batch 9 --size 64 --warp center > "$t/out" 2> "$t/err"
if [ -z "$python" ]; then skip "pixels of the sheet" "no python3 with PIL [python3-pil]"
elif "$python" - "$t" > "$t/out" 2>&1 <<'EOS'
import sys
from PIL import Image
t = sys.argv[1]
sheet, draws = Image.open(t + "/sheet.png").convert("RGB"), Image.open(t + "/draws.png").convert("RGB")
cell = (64 + 6, (sheet.height - 6) // 3)
pixels = lambda picture: [picture.getpixel((x, y)) for y in range(64) for x in range(64)]
place = lambda i: (6 + i % 3 * cell[0], 6 + i // 3 * cell[1])
for i in range(9):
    x, y = place(i)
    shown = sheet.crop((x, y, x + 64, y + 64))
    loaded = Image.open(t + "/batch/%05d.ppm" % i)
    off = max(abs(a - b) for p, q in zip(pixels(shown), pixels(loaded)) for a, b in zip(p, q))
    assert off <= 1, (i, off)                     # uint8 is rounded to even, the files of batch up
    label = set(color for _, color in sheet.crop((x, y + 64, x + 64, y + cell[1] - 3)).getcolors())
    assert label == {(255, 255, 255), (192, 0, 0) if i == 2 else (32, 32, 32)}, (i, label)
tiles = {draws.crop((6 + x * 70, 6, 70 + x * 70, 70)).tobytes() for x in range(2)}
assert len(tiles) == 2, "both draws of the sample are alike"
EOS
then pass; else fail "the sheet has the pixels of the batch, and a label below each, of a damaged one in red" "$(cat "$t/out")"; fi

# ---- the page ----

status=0; "$bzna" view "$t/pictures" -o "$t/page.html" > "$t/out" 2> "$t/err" || status=$?
same "a page with damaged samples: exit status" "$status" 1
same "a page says how many cannot be shown" "$(tail -n 1 "$t/err")" "bzna: 2 of 26 samples cannot be shown"
same "a page has every sample" "$(grep -c '<figure' "$t/page.html")" 26
same "pictures stand in the page" "$(grep -c 'src="data:image/jpeg;base64,' "$t/page.html")" 24
same "the page names nothing outside itself" "$(grep -cE '(src|href)="?(https?:|//|[a-z]+/)' "$t/page.html")" 0
if grep -q '<b>&' "$t/page.html"; then fail "a file's name is text, not HTML"; else pass; fi
"$bzna" view "$t/pictures" -o "$t/some.html" --count 3 --shuffle --seed 2 2> "$t/err"
same "a page of three samples" "$(grep -c '<figure' "$t/some.html")" 3

for browser in chromium chromium-browser google-chrome; do command -v "$browser" > "$t/out" && break; browser=; done
if [ -z "$browser" ]; then skip "the page in a browser" "no chromium here [chromium]"; finish; fi

# open WIDTH SCRIPT: what the page's title is after the script ran in it
open() {
    sed "s|</body></html>|<script>$2</script></body></html>|" "$t/page.html" > "$t/run.html"
    timeout 600 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$t/profile" --window-size="$1",800 \
        --dump-dom "file://$t/run.html" 2> "$t/err" |
        sed -n 's:.*<title>\(.*\)</title>.*:\1:p' | head -n 1
}
shown="document.title = figures.filter(f => !f.hidden).length + ' ' + at('shown').value;"
set_to() { echo "at('$1').value = '$2'; at('$1').dispatchEvent(new Event('input'));"; }
probe=$(open 1280 "document.title = 'ready'")
if [ "$probe" != ready ]; then skip "the page in a browser" "$browser does not run here: $(head -n 1 "$t/err")"; finish; fi
same "the page shows all samples" "$(open 1280 "$shown")" "26 26 of 26 samples"
same "the page has a choice of classes" "$(open 1280 "document.title = [...at('class').options].map(o => o.text).join()")" \
     "all classes,0 charts,1 fractals,2 plasma,3 shapes"
same "the page filters by class" "$(open 1280 "$(set_to class 1) $shown")" "6 6 of 26 samples"
same "the page filters by status" "$(open 1280 "$(set_to status bad) $shown")" "1 1 of 26 samples"
same "what is no picture is told from what is damaged" "$(open 1280 "$(set_to status unsupported) $shown")" \
    "1 1 of 26 samples"
same "the page filters by name" "$(open 1280 "$(set_to text CHARTS/0) $shown")" "7 7 of 26 samples"
same "filters add up" "$(open 1280 "$(set_to class 0) $(set_to status bad) $shown")" "1 1 of 26 samples"
same "every picture of the page decodes" \
     "$(open 1280 "document.title = [...document.images].filter(i => i.complete \\&\\& i.naturalWidth == i.getAttribute(\"width\")).length")" 24
same "a damaged sample has its error below it" \
     "$(open 1280 "document.title = [...document.querySelectorAll('figure:not(.ok) .error')].every(e => e.textContent.length > 20)")" true
same "on a phone, nothing is wider than the screen" \
    "$(open 390 "document.title = document.documentElement.scrollWidth <= innerWidth")" true
finish
