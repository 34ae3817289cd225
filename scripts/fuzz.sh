#!/bin/sh
# fuzz.sh - libFuzzer with AddressSanitizer and UBSan over all that reads foreign bytes.
# Usage: fuzz.sh [SECONDS [TARGET...]] (default: 60 s each, all targets of tests/fuzz; two
# run at a time). Everything is built and kept in build/fuzz; what new inputs a run finds
# stays there as corpus, the seeds are in tests/fuzz/corpus.
# On failure: the finding as libFuzzer tells it, the input in build/fuzz/found, exit 1.
set -eu

cd "$(dirname "$0")/.."
CC=${FUZZ_CC:-clang}
OUT=build/fuzz
SECONDS_EACH=${1:-60}
[ $# -eq 0 ] || shift

case $SECONDS_EACH in
'' | *[!0-9]* | 0)
    printf "fuzz: '%s' is no number of seconds: make fuzz SECONDS=60\n" "$SECONDS_EACH" >&2
    exit 1
    ;;
esac
command -v "$CC" >/dev/null || {
    echo "fuzz: $CC is not installed: scripts/setup.sh lint-packages" >&2
    exit 1
}
if [ $# -eq 0 ]; then
    for source in tests/fuzz/fuzz_*.c; do
        name=${source##*/fuzz_}
        set -- "$@" "${name%.c}"
    done
fi

for name in "$@"; do
    [ -e "tests/fuzz/fuzz_$name.c" ] || {
        echo "fuzz: no target $name: there is no tests/fuzz/fuzz_$name.c" >&2
        exit 1
    }
done

# setuptools' -fwrapv is left out, so that a signed overflow is a finding.
compile() {
    "$CC" -std=gnu11 -g -O1 -D_GNU_SOURCE -Wall -Wextra -Werror \
        -fno-sanitize-recover=all -Ispank/core -Ispank/plugin \
        -I"${GANGSTART_SLURM_INCLUDE:-/usr/include}" "$@"
}

rm -rf "$OUT/found" "$OUT/obj"
rm -f "$OUT"/*.log
mkdir -p "$OUT/found" "$OUT/obj"
for source in spank/core/*.c spank/plugin/rdzv.c; do
    object=${source##*/}
    compile -fsanitize=fuzzer-no-link,address,undefined -c "$source" \
        -o "$OUT/obj/${object%.c}.o"
done
for name in "$@"; do
    objects=$(find "$OUT/obj" -name '*.o')
    # Only its own target has the spec of the process that rdzv.c needs.
    [ "$name" = rdzv ] || objects=$(printf '%s\n' "$objects" | grep -v '/rdzv\.o$')
    # shellcheck disable=SC2086 # a list of files
    compile -fsanitize=fuzzer,address,undefined "tests/fuzz/fuzz_$name.c" $objects \
        -pthread -o "$OUT/$name"
    mkdir -p "$OUT/corpus/$name"
done

# xargs goes on after a finding, so that the other targets are run too.
code=0
# shellcheck disable=SC2016 # expanded by the inner shell
printf '%s\n' "$@" | xargs -n1 -P2 sh -c '
    out=$1 seconds=$2 name=$3
    "$out/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=4096 \
        -artifact_prefix="$out/found/$name-" -print_final_stats=1 -verbosity=1 \
        "$out/corpus/$name" "tests/fuzz/corpus/$name" >"$out/$name.log" 2>&1 || exit 1
' sh "$OUT" "$SECONDS_EACH" || code=1

for name in "$@"; do
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$OUT/$name.log")
    set -- "$OUT/found/$name-"*
    if [ -e "$1" ] || [ -z "$runs" ]; then
        printf 'fuzz: %-9s FAILED, input: %s\n' "$name" "$1" >&2
        grep -v '^#' "$OUT/$name.log" | tail -60 >&2
        code=1
    else
        printf 'fuzz: %-9s ok, %s inputs\n' "$name" "$runs"
    fi
done
exit "$code"
