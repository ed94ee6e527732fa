#!/bin/sh
# test_power.sh - what bzna leaves behind when it is killed or the machine loses power: see power.py, which does the
# work
#
# Without TEST_ALL only some of the moments.
# shellcheck disable=SC2154
. tests/tool/tool.sh

library=$t/logged_calls.so
states=${TEST_ALL:+0}
if [ -n "$SANITIZE" ] || [ -n "$ON_WINDOWS" ] ||
    ! "${CC:-cc}" -shared -fPIC -O1 -o "$library" tests/fake/logged_calls.c -ldl 2>"$t/err"; then
    skip "files after a loss of power" \
        "no library can be preloaded here: ${SANITIZE:+sanitizers}$(head -n 1 "$t/err" 2>/dev/null)"
elif [ -z "$python" ]; then
    skip "files after a loss of power" "no python3 [python3]"
else
    [ -n "$TEST_ALL" ] || echo "LEFT most moments at which bzna is killed or the power is lost"
    expect 0 "draw_pictures" "$build/draw_pictures" "$t/drawn" 6
    run "$python" tests/tool/power.py "$bzna" "$t/drawn" "$t" "$library" "${states:-24}"
    cat "$t/out" "$t/err"
    counts=$(tail -n 1 "$t/out")
    if [ "$status" -gt 1 ] || [ "${counts%% *}" = "$counts" ]; then fail "power.py" "exit status $status"; else
        passed=$((passed + ${counts%% *}))
        rest=${counts#*, }
        failed=$((failed + ${rest%% *}))
    fi
fi
finish
