"""Run the parts of the bench that are named (default: all) and keep the figures."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from bench import faults, health, history, launch, library, scale, shim, triage
from bench.place import ROOT
from bench.table import Figures, fail, note

PARTS = {
    "launch": launch.launches,
    "scale": scale.measure,
    "faults": faults.on_cluster,
    "story": faults.story,
    "skew": launch.skew,
    "start": launch.starts,
    "health": health.measure,
    "shim": shim.measure,
    "library": library.measure,
    "triage": triage.measure,
    "history": history.measure,
}


def machine() -> None:
    """Say what the figures come from."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((li.split(":")[1] for li in lines if li.startswith("model name")), " ?")
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    note(f"{len(os.sched_getaffinity(0))} CPUs:{cpu}; Linux {os.uname().release}")
    note(f"load {load} before the bench; torch: {find_spec('torch') is not None}")


def main(names: list[str]) -> int:
    """Measure; the goals are compared, not asserted."""
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        fail(f"no part {', '.join(unknown)}: there are {', '.join(PARTS)}")
    if os.geteuid() != 0:
        fail("needs root, for network namespaces: sudo make bench")
    figures = Figures()
    machine()
    for name in names or PARTS:
        PARTS[name](figures)
    path = ROOT / "bench.json"
    figures.write(path)
    missed = [row for row in figures.rows if row.met is False]
    met = sum(row.met is True for row in figures.rows)
    print(f"\n{met} goals met, {len(missed)} missed; all rows are in {path.name}")
    return 0


sys.exit(main(sys.argv[1:]))
