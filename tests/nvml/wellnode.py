"""A fake node on which nothing is wrong, unlike fakenvml's, whose values all differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvml.fakenvml import GIB, LINKS, Node, healthy

if TYPE_CHECKING:
    from pathlib import Path


def well(bus: int) -> dict[str, object]:
    """Return every answer of a GPU without a finding."""
    calm = {
        "ecc_total.1.0": 0,
        "ecc_total.1.1": 0,
        "ecc_total.0.0": 4,
        "ecc_place.1.0.7": 0,
        "sram_threshold": 0,
        "unrepairable": 0,
        "remapped": "0 0 0 0",
        "retired_pending": 0,
        "mig.pending": 0,
        "clock_reasons": 1,
        "pcie_width": 16,
        "pcie_gen": 5,
        "power_limit": 700_000,
        "compute_mode": 0,
        "virtualization": 0,
        "minor": 0 if bus == 0x1A else 1,
        "utilization": 0,
        "memory_utilization": 0,
        "memory.free": 140 * GIB,
        "memory.used": 1 * GIB - (700 << 20),
        "memory.reserved": 700 << 20,
        "fabric.state": 3,
        "fabric.status": 0,
        "fabric.health": 0x1AA,
        "field.230": "1:0",
        "field.29": "2:0",
        "field.30": "3:0",
        **{f"nvlink.{link}": 1 for link in range(LINKS)},
        **{
            f"field.{kind}.{link}": "3:0"
            for kind in (161, 162, 163)
            for link in range(LINKS)
        },
        "processes": "",
        "graphics": "",
        "mps": "",
    }
    made = healthy(bus) | calm
    del made["numa_node"]  # only where memory is the host's too
    return made


def make_well(folder: Path, library: Path, count: int = 2) -> Node:
    """Put such a node into a folder: ``library`` is the fake."""
    node = Node(folder, library, gpus=[well(bus) for bus in (0x1A, 0xDB)[:count]])
    node.driver()
    node.put("/kmsg", "6,1,1000,-;Linux version")
    node.write()
    return node
