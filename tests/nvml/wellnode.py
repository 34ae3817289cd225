"""A fake node on which nothing is wrong, unlike fakenvml's, whose values all differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvml.fakenvml import Node
from nvml.sound import sound

if TYPE_CHECKING:
    from pathlib import Path


def make_well(folder: Path, library: Path) -> Node:
    """Put two sound GPUs into a folder: ``library`` is the fake."""
    gpus = [sound(bus) | {"minor": minor} for minor, bus in enumerate((0x1A, 0xDB))]
    node = Node(folder, library, gpus=gpus)
    node.driver()
    node.put("/kmsg", "6,1,1000,-;Linux version")
    node.write()
    return node
