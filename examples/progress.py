"""The library in a training: meet when the data is there, tell how far it is.

    srun -N4 --ntasks-per-node=2 --gang-start python examples/progress.py
    mpirun -n 4 gangstart run -- python examples/progress.py
    python examples/progress.py

The last one is a world of one: it meets nobody and tells nobody, and works.
"""

from __future__ import annotations

import sys

import gangstart

STEPS = 1000


def train(step: int) -> float:
    """Stand for a training step; its loss."""
    return 1.0 / (step + 1)


def main() -> int:
    """Train, or say who did not come."""
    me = gangstart.current()
    gangstart.heartbeat(0, phase="data")
    try:
        met = gangstart.barrier(timeout=60, name="data is there")
    except gangstart.BarrierError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if me.rank == 0:
        late = f"rank {met.last_rank} on {met.last_node}, +{met.skew_s:.1f} s"
        print(f"{me.world_size} ranks have their data (last: {late})")
        print(gangstart.health(deadline=5).sentence)
    for step in range(STEPS):
        gangstart.heartbeat(step, loss=train(step), phase="train")
    return 0


sys.exit(main())
