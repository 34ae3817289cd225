#!/bin/bash
# demo.sh - a training that starts, and a start that is refused, on a private Slurm
# cluster of four nodes on this machine. Root, or a user who may make namespaces (tried
# first), or sudo.
# On failure: says which expectation was not met, exit 1. The cluster is always taken down.
set -euo pipefail

cd "$(dirname "$0")/.."
NAME=demo
PYTHON=$PWD/.venv/bin/python
GANGSTART=("$PWD/.venv/bin/gangstart")
[ "$(id -u)" -eq 0 ] || unshare --user --map-root-user --net true 2>/dev/null ||
    GANGSTART=(sudo "${GANGSTART[@]}")
export TORCH_CPP_LOG_LEVEL=ERROR # else torch warns that an address has no name in DNS

heading() {
    printf '\n== %s\n' "$1"
    shift
    [ $# -eq 0 ] || printf '   %s\n' "$@"
}

fail() {
    printf 'demo: %s\n' "$*" >&2
    exit 1
}

# on_cluster SECONDS COMMAND... - show the command, then run it on the cluster's login
# node; what it prints is shown as it comes and kept in $OUT.
on_cluster() {
    local limit=$1
    shift
    printf '   $ %s\n' "${*//$PWD\//}"
    timeout --kill-after=10 "$limit" "${GANGSTART[@]}" cluster run --name $NAME -- "$@" \
        </dev/null 2>&1 | tee "$OUT"
}

# expect PATTERN WHAT - the last output has a line like this.
expect() {
    grep -Eq -- "$1" "$OUT" || fail "expected $2, and the output above does not have it"
}

clean_up() {
    local code=$?
    trap - EXIT
    [ -z "$UP" ] || {
        heading "Taking the cluster down"
        timeout --kill-after=10 60 "${GANGSTART[@]}" cluster down --name $NAME </dev/null ||
            code=1
    }
    rm -f "$OUT"
    exit "$code"
}

scripts/setup.sh
UP=
OUT=$(mktemp)
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

heading "1. A private Slurm cluster: 4 nodes, each a network namespace of this machine"
UP=yes
timeout --kill-after=10 120 "${GANGSTART[@]}" cluster up -n 4 --name $NAME </dev/null

heading "2. A good start: 8 tasks of a PyTorch training on the 4 nodes" \
    "The first line comes from srun: every task was there before the first one ran." \
    "The example reads only RANK, WORLD_SIZE, MASTER_ADDR …, which the plugin set."
on_cluster 180 srun -N4 --ntasks-per-node=2 --gang-start=60 \
    "$PYTHON" "$PWD/examples/train_ddp.py" || fail "the training ended with exit code $?"
expect '^gang-start: 8/8 tasks on 4/4 nodes' "srun's line 'gang-start: 8/8 tasks on 4/4 nodes'"
expect '^all 8 ranks agree: sha256 ' "the same weights on all 8 ranks"
STEP=$(sed -n 's/^step \([0-9]*\.[0-9]*\):.*/\1/p' "$OUT")
[ -n "$STEP" ] || fail "the training did not name its step"

heading "3. The report of that start: who came when, and where rank 0 is"
on_cluster 30 "$PWD/.venv/bin/gangstart" report "$STEP" ||
    fail "gangstart report ended with exit code $?"

heading "4. A refused start: the slurmd of n3 is frozen, as on a node that hangs" \
    "Plain Slurm would let the other nodes' tasks wait in their first collective."
timeout --kill-after=10 60 "${GANGSTART[@]}" cluster node stop --name $NAME n3 </dev/null
code=0
on_cluster 120 srun -N4 --ntasks-per-node=2 --gang-start=5 \
    "$PYTHON" "$PWD/examples/train_ddp.py" || code=$?
[ "$code" -eq 75 ] || fail "the refused start ended with exit code $code instead of 75"
expect 'refused after' "the refusal"
expect '^ *n3 ' "the line that blames n3"
! grep -Eq '^ *n[124] ' "$OUT" || fail "a node that had arrived was blamed"
printf '   exit code %s: not everybody arrived, and no task was started\n' "$code"

heading "That was it in $SECONDS s. Next: README.md, or your own script under" \
    ".venv/bin/gangstart cluster up -n 4"
