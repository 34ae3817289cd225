#!/bin/sh
# bench.sh - compiles what the bench needs into build/bench and measures: bench/.
# Usage: bench.sh [PART...] (default: all; an unknown one is answered with the list).
# On failure: what broke, exit 1. A missed goal is no failure: it stands in the table.
set -eu

cd "$(dirname "$0")/.."
OUT=build/bench
mkdir -p "$OUT"
# shellcheck disable=SC2086 # CFLAGS are words
${CC:-gcc} -std=gnu11 -O2 -Wall -Wextra -Werror ${CFLAGS:-} -D_GNU_SOURCE \
    -Ispank/core -Ibench/agents bench/agents/*.c spank/core/*.c -o "$OUT/agents" -pthread
# shellcheck disable=SC2086 # CFLAGS are words
${CC:-gcc} -std=gnu11 -O2 -Wall -Wextra -Werror ${CFLAGS:-} -D_GNU_SOURCE \
    bench/stamp.c -o "$OUT/stamp"
exec .venv/bin/python -m bench "$@"
