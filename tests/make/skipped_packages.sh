#!/bin/sh
# skipped_packages.sh - the packages that would end a skip: what reasons in tests/ name in brackets, one a line
#
#     sh tests/make/deps.sh $(sh tests/make/skipped_packages.sh)        from the repository's root
#
# Prints the packages that this system's release of Debian has, by apt-cache, and of [a|b] the first that it has. With
# --all, or without apt-cache, it prints every name. Brackets count at the end of a string that has no variable in them:
# where the packages of a reason are computed, a comment beside it has their names in the same form.
named=$(grep -rhE '\[[a-z][^]]*\]"' tests --include='*.[ch]' --include='*.sh' --include='*.py' | grep -v usage: |
    grep -oE '[ "]\[[a-z][a-z0-9+.|-]+( [a-z][a-z0-9+.|-]+)*\]"' | tr -d '"[]' | tr -s ' ' '\n' | sed '/^$/d')
[ "$1" = --all ] || known=$(apt-cache pkgnames 2>/dev/null)
{ echo "$known"; echo; echo "$named"; } | awk -F '|' '
    NF == 0 { all = NR <= 2; names = 1; next }
    !names  { known[$0]; next }
    { for (i = 1; i <= NF; i++) if (all || $i in known) { print $i; if (!all) break } }' | LC_ALL=C sort -u
