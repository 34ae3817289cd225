#!/bin/sh
# asan.sh - the core, NVML and plugin tests under AddressSanitizer and UBSan.
# Usage: asan.sh [PYTEST-ARGUMENT...]. Everything sanitized lies in build/asan; the
# normal build is not touched. Leaks are not looked for: Python itself "leaks" at exit.
# On failure: pytest's own report, then ASan's for every process that had one (a child's
# could pass unseen). UBSan knows no log file beside ASan: its line goes to stderr, which
# --capture=sys lets through though the process ends there. Exit 1.
set -eu

ROOT=$(cd "$(dirname "$0")/.." && pwd)
cd "$ROOT"
PYTHON=$ROOT/.venv/bin/python
OUT=$ROOT/build/asan
# setuptools adds -fwrapv, which would hide signed overflow from UBSan.
SANITIZE="-O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer -fno-wrapv"
SANITIZE="$SANITIZE -fno-sanitize-recover=all"

tests=
for folder in tests/core tests/nvml tests/plugin; do
    [ -d "$folder" ] && tests="$tests $folder"
done
[ -n "$tests" ] || {
    echo "asan: none of tests/core, tests/nvml and tests/plugin is here" >&2
    exit 1
}

mkdir -p build
log=$(mktemp)
trap 'rm -f "$log"' EXIT
rm -rf "$OUT"
# By force: the ordinary plugin lies in the package, is copied with it and, being newer
# than its sources, would pass for built.
CFLAGS=$SANITIZE LDFLAGS='-fsanitize=address,undefined' \
    "$PYTHON" setup.py -q build --force -b "$OUT/work" --build-lib "$OUT/lib" >"$log" 2>&1 || {
    cat "$log" >&2
    echo "asan: the sanitized build failed" >&2
    exit 1
}

export PYTHONPATH="$OUT/lib" PYTHONMALLOC=malloc
export ASAN_OPTIONS="detect_leaks=0:log_path=$OUT/found"
export UBSAN_OPTIONS=print_stacktrace=1
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
export LD_PRELOAD

# A run that loaded the ordinary build would prove nothing.
"$PYTHON" -c 'import sys, gangstart._core as c; sys.exit(not c.__file__.startswith(sys.argv[1]))' \
    "$OUT" || {
    echo "asan: the tests would not load the sanitized gangstart._core of $OUT" >&2
    exit 1
}
plugin=$OUT/lib/gangstart/plugins/spank_gangstart-22.05.so
[ ! -e "$plugin" ] || grep -q __asan_init "$plugin" || {
    echo "asan: $plugin is an ordinary build" >&2
    exit 1
}
code=0
# What the tests compile themselves is sanitized too.
# shellcheck disable=SC2086 # a list of folders
CFLAGS=$SANITIZE LDFLAGS='-fsanitize=address,undefined' "$PYTHON" -m pytest -p no:cacheprovider --capture=sys -o "pythonpath=$OUT/lib tests" \
    $tests "$@" || code=$?
unset LD_PRELOAD
for found in "$OUT"/found.*; do
    [ -e "$found" ] || continue
    cat "$found" >&2
    code=1
done
[ "$code" -eq 0 ] || echo "asan: failed" >&2
exit "$code"
