"""What looking at the GPUs costs: eight of them on a driver that answers at once."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from bench.place import BUILT, ROOT
from bench.table import fail, heading

if TYPE_CHECKING:
    from bench.table import Figures

GPUS = 8
REPETITIONS = 15
GOAL_MS = 50.0


def measure(figures: Figures) -> None:
    """Time one whole look: probe, kernel log, judgement, record."""
    sys.path.insert(0, str(ROOT / "tests"))
    from gangstart import gpulook as health  # noqa: PLC0415 - after build
    from nvml.fakenvml import link, objects  # noqa: PLC0415 - of the tests
    from nvml.sound import sound  # noqa: PLC0415 - of the tests
    from nvml.wellnode import make_well  # noqa: PLC0415 - of the tests

    heading("GPUs before the start")
    folder = BUILT / "health"
    folder.mkdir(parents=True, exist_ok=True)
    library = link(objects(folder), folder / "libnvidia-ml.so.1")
    node = make_well(folder, library)
    node.gpus = [sound(0x10 + n) | {"minor": n} for n in range(GPUS)]
    node.driver()
    node.write()
    place = health.Place(
        library=str(library), root=str(node.root), lock=str(folder / "lock")
    )
    took = []
    for _ in range(REPETITIONS):
        begun = time.perf_counter()
        found = health.measure("start", place=place)
        took.append((time.perf_counter() - begun) * 1000)
        if len(found.event["gpus"]) != GPUS:
            fail(f"not every GPU was read: {found.sentence}")
    figures.spread(f"look at {GPUS} GPUs, driver answers at once", took, "ms", GOAL_MS)
