"""How many GPUs Slurm expects of a node: Gres= of ``scontrol show node``.

For a look at a node beside jobs only: a Prolog or Epilog never calls a Slurm command.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from gangstart import job

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE_S = 5.0
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
GRES = re.compile(r"^\s*(?:.* )?Gres=(\S*)", re.MULTILINE)
#: Which sockets or which of several, such as (S:0-1): may hold commas.
PLACE = re.compile(r"\([^()]*\)")
#: Parts of a GPU as AutoDetect=nvml names them, a100_1g.10gb: no GPUs to count.
PART = re.compile(r"\d+g\.\d+gb", re.IGNORECASE)
COUNT = re.compile(r"(\d{1,9})([kmgtp]?)", re.IGNORECASE)


def expected(node: str, scontrol: str | Path | None = None) -> int:
    """GPUs that a node should have; 0 where Slurm is not there or does not tell."""
    path = job.environ().get("PATH")
    found = scontrol or shutil.which("scontrol", path=path)
    if not found or not NODE_NAME.fullmatch(node):
        return 0
    try:
        told = subprocess.run(
            [str(found), "show", "node", node],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    line = GRES.search(told.stdout) if told.returncode == 0 else None
    return count(line[1]) if line else 0


def count(gres: str) -> int:
    """GPUs in ``gpu:8``, ``gpu:h100:8(S:0-1),nvme:2``; 0 if that cannot be told."""
    total = 0
    for entry in PLACE.sub("", gres).split(","):
        name, *rest = entry.split(":")
        if name != "gpu":
            continue
        if any(map(PART.search, rest)):
            return 0
        amount = COUNT.fullmatch(rest[-1]) if rest else None
        if amount and amount[2]:  # thousands of GPUs: a pretended resource
            return 0
        # A name without a number is one GPU: that is how Slurm reads it, too.
        total += int(amount[1]) if amount else 1
    return total
