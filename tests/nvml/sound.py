"""A node whose GPUs pass every check, and what the checks say of it when it is spoiled.

Each judgement goes the whole way: the fake NVML, gangstart-probe, its lines, the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gangstart import gpu
from gangstart.gpu import Context, Sample, Verdict
from nvml.fakenvml import GIB, LINKS, Node, healthy
from nvml.test_probe import Caller

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1 << 20
HOST = Context(root=True, idle=True, lasting=True, kernel_log="", expected=2)
RESERVED, USED = 700 * MIB, 4 * MIB


def sound(bus: int) -> dict[str, object]:
    """Answers of an idle H200 that nothing is wrong with."""
    return healthy(bus) | {
        "mig.pending": 0,
        **dict.fromkeys(("ecc_total.1.0", "ecc_total.1.1", "ecc_total.0.0"), 0),
        "ecc_place.1.0.7": 0,
        "sram_threshold": 0,
        "unrepairable": 0,
        "remapped": "0 0 0 0",
        "banks": "640 0 0 0 0",
        "retired_pending": 0,
        "clock_reasons": 1,
        "clock.1": 1981,
        "power_limit": 700_000,
        "pcie_width": 16,
        "pcie_gen": 1,  # saves power while idle
        "compute_mode": 0,
        "virtualization": 0,
        "numa_node": -1,
        "utilization": 0,
        "memory.free": 141 * GIB - RESERVED - USED,
        "fabric.status": 0,
        "fabric.health": 0,
        "field.230": "1:0",
        "field.29": "2:0",
        "field.30": "3:0",
        **{f"nvlink.{link}": 1 for link in range(LINKS)},
        **{f"remote.{link}": 2 for link in range(LINKS)},
        **{f"field.171.{link}": "1:1" for link in range(5)},
        **dict.fromkeys(("p2p.2.0", "p2p.2.1"), 0),
        **dict.fromkeys(("processes", "graphics", "mps"), ""),
    }


BUSY: dict[str, object] = {"utilization": 99, "pcie_gen": 5, "processes": "1:1"}


def in_use(mib: int) -> dict[str, object]:
    """So much memory in use."""
    return {"memory.free": 141 * GIB - RESERVED - mib * MIB}


def failing(source: str, code: int) -> dict[str, object]:
    """A call, or a field, that returns a code."""
    return {source: f"code:{code}" if source.startswith("field.") else code}


@dataclass(frozen=True)
class Spoiled:
    """What is wrong: with the node, with its last GPU, with what is known beside."""

    gpu: dict[str, object] = field(default_factory=dict)
    node: dict[str, object] = field(default_factory=dict)
    context: dict[str, object] = field(default_factory=dict)
    files: Callable[[Node], None] = lambda _: None


class Bench:
    """One fake node that is spoiled again and again."""

    def __init__(self, folder: Path, library: Path, program: Path) -> None:
        self.folder, self.library, self.program = folder, library, program
        self.count = 0

    def sample(self, spoiled: Spoiled) -> Sample:
        """What the probe tells of the spoiled node."""
        self.count += 1
        made = Node(self.folder, self.library, gpus=[sound(0x1A), sound(0xDB)])
        made.folder = self.folder / str(self.count)
        made.folder.mkdir()
        made.driver()
        made.gpus[-1] |= spoiled.gpu
        made.node |= spoiled.node
        made.write()
        spoiled.files(made)
        # Only what hangs is given up soon: a busy machine is slow without a fault.
        hangs = "hang" in spoiled.gpu
        caller = Caller(self.program, made, gpu_us=700_000 if hangs else 0)
        caller.ask.inforom = True
        assert caller.finish() == (-110 if hangs else 1), caller.message
        told = Sample()
        told.c[0] = caller.run.gpus
        return told

    def judge(self, spoiled: Spoiled, **context: object) -> Verdict:
        """The verdict on the spoiled node, as root on the host by default."""
        known = replace(HOST, **(spoiled.context | context))  # type: ignore[arg-type]
        return gpu.judge(self.sample(spoiled), known)

    def compare(self, spoiled: Spoiled) -> Verdict:
        """The verdict on the spoiled node beside two sound ones."""
        fine = self.sample(Spoiled())
        return gpu.compare({"n1": fine, "n2": self.sample(spoiled), "n3": fine})
