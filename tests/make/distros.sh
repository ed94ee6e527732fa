#!/bin/sh
# distros.sh - README's two commands on Debian 12, 13 and unstable, in a minimal root of each
#
#     sh tests/make/distros.sh ROOTS [bookworm|trixie|sid|everything|arm64 ...]    from the repository's root, as root
#
# debootstrap makes a root once, with make beside Debian's minimum. "everything" is Debian 12 with all packages that a
# skipped test asks for (skipped_packages.sh). "arm64" is Debian 13 for ARM with 64 bits, and runs only if it is named:
# another processor needs qemu-user-static, and hours. A root's folder in ROOTS has
#
#     root/     the system, in which what make deps installed stays; FRESH=1 makes it anew, and so today's unstable
#     log       what the commands of the last run printed
#     result    its row of the table; passed: the files with which it passed last
#
# A root gets a copy of the files that git tracks, as they are now, whether committed or not. There a person's commands
# are typed: MAKEFLAGS=-j2 make deps demo, at first, so that in a new root packages are installed beside other jobs; in
# another copy make deps demo, and make deps test. What takes longer than LIMIT seconds (2400; 36000 by QEMU) is ended.
# What is mounted is mounted in a namespace that ends with the command. The environment is empty, as a container's,
# but that QEMU's has CPPFLAGS=-DTEST_EMULATED, with which tests calculate and time less.
#
# Prints the table of README's "Where it has run"; ends with status 1 unless all passed. A run that was interrupted goes
# on: a root that has passed with these very files is not run again, unless it is named.
#
# TEST="sampler rec": only these suites, in the copy of the last run. QUICK="sampler rec": make demo and these,
# built with less optimization, in a new copy; status 3 if there is no root, or no end within LIMIT. MIRROR: where
# Debian comes from, otherwise from where this machine's apt takes it, by the proxies of apt and of the environment.
all="bookworm trixie sid everything"
known="$all arm64"
if [ $# -eq 0 ]; then echo "usage: distros.sh ROOTS [bookworm|trixie|sid|everything|arm64 ...]"; exit 2; fi
mkdir -p "$1" && roots=$(cd "$1" && pwd) || exit 1
shift
for name; do
    case " $known " in *" $name "*) ;; *) echo "make test-distros: there is no root $name, only $known"; exit 2 ;; esac
done
if [ "$(id -u)" -ne 0 ]; then echo "make test-distros: debootstrap and chroot need root"; exit 1; fi
if ! command -v debootstrap >/dev/null; then echo "make test-distros: there is no debootstrap [debootstrap]"; exit 1; fi

# shellcheck disable=SC2016
mirror=${MIRROR:-$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 2>/dev/null |
    awk '$1 == "Debian" && $2 ~ /\/debian\/?$/ { print $2; exit }')}
runs_arm64() { # by this processor, or by a QEMU that the kernel has been told of and that it finds from within a root
    [ "$(uname -m)" != aarch64 ] || return 0
    ! grep -q '^flags: .*F' /proc/sys/fs/binfmt_misc/qemu-aarch64 2>/dev/null || return 0
    echo "/proc/sys/fs/binfmt_misc has no qemu-aarch64, which qemu-user-static registers" >"$folder/log"; return 1
}
make_root() {
    [ -z "$FRESH" ] || rm -rf "$root"
    [ ! -e "$root/made" ] || return 0
    arch=
    case $name in everything) suite=bookworm ;; arm64) suite=trixie; arch=--arch=arm64 ;; *) suite=$name ;; esac
    [ -z "$arch" ] || runs_arm64 || return 1
    echo "$name: making a root of Debian's $suite"
    rm -rf "$root"
    # shellcheck disable=SC2086
    debootstrap --variant=minbase $arch --include=make "$suite" "$root" $mirror >"$folder/log" 2>&1 || return 1
    apt-config dump | grep -i '^Acquire::.*::Proxy' >"$root/etc/apt/apt.conf.d/distros"
    echo '127.0.0.1 localhost' >"$root/etc/hosts"
    # A mirror that stands still serves as well, and nobody needs the root after a loss of power.
    echo 'Acquire::Check-Valid-Until "false";' >>"$root/etc/apt/apt.conf.d/distros"
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/distros"
    echo 'Acquire::Languages "none";' >>"$root/etc/apt/apt.conf.d/distros"
    # No service starts when its package is installed.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod +x "$root/usr/sbin/policy-rc.d"
    if [ -n "$emulated" ] && [ "$(uname -m)" = x86_64 ]; then
        sh tests/make/arm64_tools.sh "$root" "$folder/tools" >>"$folder/log" 2>&1 || return 1
    fi
    date +%F >"$root/made"
}

tracked() { # files that git tracks, and that are there
    git -c core.quotePath=off ls-files | while IFS= read -r file; do [ ! -e "$file" ] || printf '%s\n' "$file"; done
}
copy_tree() { # times stay those of the files, for make
    mkdir -p "$root/benzina" && tracked | tar -c -f - -T - | tar -x -f - -C "$root/benzina" --no-same-owner
}

inside() { # command: in the root
    # shellcheck disable=SC2016
    timeout --foreground --signal=KILL "$limit" unshare --mount --pid --fork --kill-child sh -c '
        mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
            mount -t tmpfs tmpfs "$1/dev/shm" && cp -L /etc/resolv.conf "$1/etc/resolv.conf" || exit 1
        exec chroot "$1" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            $emulated ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
            sh -c "cd /benzina && $2"' sh "$root" "$1" </dev/null
}
typed() { # command: what became of it is said; its status
    began=$(date +%s)
    echo "\$ $1" >>"$folder/log"
    inside "$1" >>"$folder/log" 2>&1; status=$?
    case $status in 0) said=runs ;; 137) said="no end in $limit s" ;; *) said=fails ;; esac
    echo "$name: $1: $said, after $(($(date +%s) - began)) s"
    [ $status -eq 0 ] || failed=1
}
counted() { # what the last command counted, if it did
    sed -n 'H; /^\$ /h; ${ g; p; }' "$folder/log" | grep -E '^[0-9]+ passed, [0-9]+ failed' | tail -n 1
}
system() { # what the root is, as three columns
    case $name in
    sid) echo "Debian unstable of $(cat "$root/made")" ;;
    arm64) echo "Debian $(cat "$root/etc/debian_version") on 64-bit ARM${emulated:+, by QEMU}" ;;
    everything) echo "Debian $(cat "$root/etc/debian_version") with every package that a test asks for" ;;
    *) echo "Debian $(cat "$root/etc/debian_version")" ;;
    esac
    # shellcheck disable=SC2016
    inside 'echo "gcc $(gcc -dumpfullversion)$(clang --version | sed -n "s/.*clang version \([0-9.]*\).*/, clang \1/p")"
        ffmpeg -version | sed -n "1s/.*version \([^ -]*\).*/\1/p"' 2>/dev/null
}
run() { # all three commands; the row is the result
    : >"$folder/log"; rm -f "$folder/passed"
    if [ "$name" = everything ]; then
        copy_tree && typed "apt-get update && sh tests/make/deps.sh \$(sh tests/make/skipped_packages.sh)"
    fi
    demos=
    for command in "MAKEFLAGS=-j2 make deps demo" "make deps demo"; do
        rm -rf "$root/benzina" && copy_tree && typed "$command" || return 1
        demos="$demos | $said"
    done
    typed "make deps test"
    case $said in runs|fails) tests=$(counted) ;; *) tests= ;; esac
    sed '1,/^\$ make deps test$/d' "$folder/log" | grep -E '^FAIL'
    system | paste -sd '|' - | sed "s/|/ | /g; s/.*/| &$demos | ${tests:-$said} |/" >"$folder/result"
    [ $failed -ne 0 ] || echo "$files" >"$folder/passed"
}

quick() {
    rm -rf "$root/benzina" && copy_tree
    inside true 2>"$folder/log" || { cat "$folder/log"; echo "$name: nothing runs in the root"; exit 3; }
    : >"$folder/log"
    typed "make deps demo OPT=-O1 && make test OPT=-O1 TEST=\"$QUICK\""
    grep -E '^(FAIL|SKIP)' "$folder/log"; counted
    if [ "$said" = fails ]; then tail -n 20 "$folder/log"; return 1; fi
    [ "$said" = runs ] || exit 3
}

files=$(tracked | tr '\n' '\0' | xargs -0 sha256sum | sha256sum)
status=0
export emulated
# shellcheck disable=SC2048  # words
for name in ${*:-$all}; do
    folder=$roots/$name; root=$folder/root; failed=0; emulated=; limit=${LIMIT:-2400}
    if [ "$name" = arm64 ] && [ "$(uname -m)" != aarch64 ]; then
        emulated=CPPFLAGS=-DTEST_EMULATED; limit=${LIMIT:-36000}
    fi
    mkdir -p "$folder"
    if [ $# -eq 0 ] && [ -z "$FRESH$TEST$QUICK" ] && [ "$(cat "$folder/passed" 2>/dev/null)" = "$files" ]; then
        echo "$name: has passed with these files"; continue
    fi
    if ! make_root; then
        tail -n 20 "$folder/log"; echo "$name: no root"; status=1
        [ -z "$QUICK" ] || exit 3
        continue
    fi
    if [ -n "$QUICK" ]; then
        quick || failed=1
    elif [ -n "$TEST" ]; then
        copy_tree && typed "make deps test TEST=\"$TEST\""
        sed -n 'H; /^\$ /h; ${ g; p; }' "$folder/log"
    else
        run || failed=1
    fi
    [ $failed -eq 0 ] || status=1
done
if [ -z "$TEST$QUICK" ]; then
    echo "| system | compilers | FFmpeg | \`MAKEFLAGS=-j2 make deps demo\` | \`make deps demo\` | \`make deps test\` |"
    echo "|---|---|---|---|---|---|"
    for name in $known; do cat "$roots/$name/result" 2>/dev/null; done
fi
exit $status
