"""Earlier jobs on the same nodes, to see whether a node fails others too."""

from __future__ import annotations

from gangstart.triage.model import PastJob
from gangstart.triage.source import values
from gangstart.triage.source.record import GarbageError
from gangstart.triage.source.slurmtext import optional, seconds

FIELDS = 7  # of past_argv


def past_jobs(told: str, delimiter: str) -> list[PastJob]:
    """Rows of sacct about jobs that have ended, in its order."""
    made: list[PastJob] = []
    for line in told.splitlines():
        row = line.split(delimiter)
        if len(row) != FIELDS:
            raise GarbageError(f"a row of {len(row)} fields, not {FIELDS}")
        end = seconds(row[4])
        if end is None:
            continue
        state, _, _ = values.state(row[1])
        left = values.exit_text(row[2], exact=False)
        elapsed = optional(row[3])
        made.append(
            PastJob(
                job_id=row[0],
                user=row[6],
                state=state,
                nodes=values.nodes(row[5]),
                exit_code=left.code if left else 0,
                elapsed_s=None if elapsed is None else float(elapsed),
                end=end,
            )
        )
    return made
