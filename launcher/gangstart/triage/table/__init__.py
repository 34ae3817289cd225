"""The one table of lines: ``ROWS``, in the order in which they are tried.

How to add a line: a Row in the file it belongs to, with its example; the tests run
every example. Rows that come first win, so what is special stands before what is
general. A literal must stand in every line the pattern takes: the scan looks for
literals only.
"""

from __future__ import annotations

from gangstart.triage.table.container import CONTAINER
from gangstart.triage.table.filesystem import FILESYSTEM
from gangstart.triage.table.general import GENERAL
from gangstart.triage.table.gpu import GPU
from gangstart.triage.table.nccl import NCCL, NCCL_REST
from gangstart.triage.table.ours import OURS
from gangstart.triage.table.python import PYTHON
from gangstart.triage.table.rendezvous import RENDEZVOUS
from gangstart.triage.table.row import Row
from gangstart.triage.table.slurm import SLURM
from gangstart.triage.table.system import SYSTEM

ROWS: tuple[Row, ...] = (
    *OURS,
    *SLURM,
    *NCCL,
    *RENDEZVOUS,
    *GPU,
    *NCCL_REST,
    *FILESYSTEM,
    *SYSTEM,
    *CONTAINER,
    *PYTHON,
    *GENERAL,
)

__all__ = ["ROWS", "Row"]
