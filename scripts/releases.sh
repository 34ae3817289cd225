#!/bin/sh
# releases.sh - every test that needs a cluster, on each Slurm that roots.sh has a row for.
# Usage: releases.sh [PYTEST-ARGUMENT...]. Some ten minutes per release on two idle cores.
# A root that this machine or its mirror cannot give is named, and its tests are skipped.
# On failure: pytest's own report, then the releases that failed, exit 1.
set -eu

cd "$(dirname "$0")/.."
FAILED=

scripts/roots.sh --try
for line in $(scripts/roots.sh --lines); do
    scripts/roots.sh --path "$line" >/dev/null || continue
    printf 'releases: Slurm %s\n' "$line"
    .venv/bin/python -m pytest --slurm "$line" tests/cluster "$@" || FAILED="$FAILED $line"
done
if [ -n "$FAILED" ]; then
    printf 'releases: failed:%s\n' "$FAILED" >&2
    exit 1
fi
