"""Nodes of a real cluster with a fake NVML each: what GPUs answer is in files."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

from nvml.wellnode import make_well

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cluster.gang import Gang

NODES = ("n1", "n2", "n3", "n4")


class Gpus:
    """The fake GPUs of all nodes, in a folder that every node sees."""

    def __init__(self, folder: Path, library: Path, probe: Path) -> None:
        self.folder = folder
        self.nodes = {}
        for name in NODES:
            own = folder / name
            own.mkdir()
            copy = own / library.name
            shutil.copy(library, copy)
            self.nodes[name] = make_well(own, copy)
        self.probe = folder / "probe"
        self.probe.write_text(
            f'#!/bin/sh\nd={folder}/$(uname -n)\necho >>"$d/probed"\nexec {probe} "$@" '
            '--library "$d/libnvidia-ml.so.1" --sysfs "$d/root" --lock "$d/lock"\n'
        )
        self.probe.chmod(0o755)
        self.kmsg = folder / "kmsg"
        self.kmsg.write_text("")
        self.conf = folder / "gangstart.conf"
        self.write_conf()

    def write_conf(self, *lines: str) -> None:
        """What the site wants, beside two GPUs per node."""
        wanted = ("expected_gpus = 2", f"kernel_log = {self.kmsg}", *lines)
        self.conf.write_text("".join(f"{line}\n" for line in wanted))

    def set(self, node: str, gpu: int, **values: object) -> None:
        """Change what a GPU answers."""
        self.nodes[node].gpus[gpu] |= values
        self.nodes[node].write()

    def probed(self, node: str) -> int:
        """How often the probe was started on a node."""
        lines = self.folder / node / "probed"
        return len(lines.read_text().splitlines()) if lines.exists() else 0

    @property
    def arguments(self) -> str:
        """What plugstack.conf says."""
        return f"probe={self.probe} conf={self.conf}"


@contextlib.contextmanager
def equipped(gang: Gang, library: Path, words: str = "") -> Iterator[Gpus]:
    """Give every node two sound GPUs, and the plugin a probe that finds them.

    `words`: more arguments in plugstack.conf.
    """
    folder = gang.folder / "gpu"
    folder.mkdir()
    probe = gang.cluster.directory / "plugin" / "gangstart-probe"
    made = Gpus(folder, library, probe)
    with gang.plugstack(f"{{ours}} {made.arguments} {words}".rstrip()):
        yield made
