"""A node made of files: /proc, cgroups, /dev/shm, /tmp, InfiniBand."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from gangstart.check import node, scan
from gangstart.gpuanswer import Health

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: Whatever fits a field, or comes out of a JSON object.
Known: TypeAlias = Any
USER = 1001
BOOTED = 1_000_000
TICKS = os.sysconf("SC_CLK_TCK")
OURS = "0::/system.slice/slurmstepd.scope/job_501/step_0/user/task_0"
THEIRS = "0::/system.slice/slurmstepd.scope/job_502/step_0/user/task_0"
TCP = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt"
GPU = "/dev/nvidia0"


def tcp_line(address: str, port: int, inode: int, state: str = "0A") -> str:
    """One line of /proc/net/tcp."""
    return (
        f"   0: {address}:{port:04X} 00000000:0000 {state} 00000000:00000000 "
        f"00:00000000 00000000     0        0 {inode} 1 0000 100 0 0 10 0"
    )


@dataclass
class FakeProcess:
    """A process as a test describes it."""

    argv: Sequence[str] = ("python", "train.py")
    uid: int = USER
    cgroup: str = "0::/system.slice"
    env: Mapping[str, str] | bytes = field(default_factory=dict)
    state: str = "S"
    name: str = "python"
    parent: int = 1
    started: int = 50  # seconds after the boot
    files: Sequence[str] = ()
    listens: Sequence[tuple[str, int]] = ()
    maps: str = ""
    network: str = "net:[1]"


class FakeNode:
    """The files of a node below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.roots = scan.Roots(
            root / "proc", root / "cgroup", root / "shm", root / "tmp"
        )
        for folder in vars(self.roots).values():
            folder.mkdir()
        (self.roots.proc / "stat").write_text(f"cpu 1 2\nbtime {BOOTED}\n")
        (self.roots.proc / "self").symlink_to(str(os.getpid()))
        self.infiniband = root / "infiniband"
        self.spool = root / "spool"
        self.inode = 100
        self.add(1, FakeProcess(("init",), uid=0, name="systemd"))
        self.add(os.getpid(), FakeProcess(("gangstart",), uid=0, name="gangstart"))

    def add(self, pid: int, process: FakeProcess) -> Path:
        """Add a process."""
        folder = self.roots.proc / str(pid)
        for name in ("", "fd", "net", "ns"):
            (folder / name).mkdir(exist_ok=True)
        p = process
        rest = ["0"] * 17
        rest.append(str(p.started * TICKS))
        (folder / "stat").write_text(
            f"{pid} ({p.name}) {p.state} {p.parent} {' '.join(rest)} 0 0\n"
        )
        (folder / "status").write_text(f"Name:\tx\nUid:\t{p.uid}\t{p.uid}\n")
        (folder / "cgroup").write_text(p.cgroup + "\n")
        raw = p.env if isinstance(p.env, bytes) else environ(p.env)
        (folder / "environ").write_bytes(raw)
        (folder / "cmdline").write_bytes("\0".join(p.argv).encode() + b"\0")
        (folder / "maps").write_text(p.maps)
        (folder / "ns" / "net").symlink_to(p.network)
        opened = list(p.files)
        lines = [TCP]
        for address, port in p.listens:
            self.inode += 1
            lines.append(tcp_line(address, port, self.inode))
            opened.append(f"socket:[{self.inode}]")
        self.table(lines)
        for number, target in enumerate(opened):
            (folder / "fd" / str(number)).symlink_to(target)
        return folder

    def table(self, lines: Sequence[str]) -> None:
        """All processes see one table of ports."""
        old = self.root / "tcp"
        known = old.read_text().splitlines()[1:] if old.exists() else []
        old.write_text("\n".join([TCP, *known, *lines[1:]]) + "\n")
        for folder in self.roots.proc.iterdir():
            if folder.is_dir() and not folder.is_symlink():
                (folder / "net" / "tcp").write_text(old.read_text())

    def cgroup(self, path: str, *pids: int) -> None:
        """A cgroup with processes."""
        folder = self.roots.cgroup / path
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))

    def port(self, device: str, number: int, **values: str) -> None:
        """An RDMA port."""
        folder = self.infiniband / device / "ports" / str(number)
        folder.mkdir(parents=True)
        shown = {
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "rate": "400 Gb/sec (4X NDR)",
            "link_layer": "InfiniBand",
        } | values
        for name, value in shown.items():
            (folder / name).write_text(value + "\n")
        (self.infiniband / device / "board_id").write_text("MT_1\n")

    def check(
        self, stage: str, world: Mapping[str, Any] | None = None, **asked: Known
    ) -> Known:
        """Check this node."""
        asked.setdefault("node", "n1")
        asked.setdefault("spool", self.spool)
        request = node.Request(stage, **asked)
        return node.Check(request, self.world(world)).run()

    def world(self, other: Mapping[str, Any] | None = None) -> node.World:
        """This node as the world of a check."""
        known: dict[str, Known] = {
            "measure": fine,
            "differences": nothing_differs,
            "expected": not_known,
            "grace_s": 0.0,
        }
        return node.World(
            roots=self.roots,
            infiniband=self.infiniband,
            **(known | dict(other or {})),
        )


def environ(env: Mapping[str, str]) -> bytes:
    """An environment as the kernel shows it."""
    return b"".join(f"{name}={value}\0".encode() for name, value in env.items())


def health(verdict: str = "ok", *, drain: bool = False, **event: Known) -> Health:
    """An answer about GPUs."""
    known = {"verdict": verdict, "drain": drain, "gpus": [], "findings": []}
    return Health(
        verdict, drain, none=False, sentence=f"{verdict} it is", event=known | event
    )


def fine(_stage: str, **_asked: Known) -> Health:
    """GPUs that are fine."""
    return health()


def not_known(_node: str) -> int:
    """No Slurm that could tell how many GPUs there should be."""
    return 0


def nothing_differs(_before: Known, _after: Known, _conf: Known) -> list[Known]:
    """Samples that are alike."""
    return []


def found(event: Known, check: str) -> list[Known]:
    """Findings of one check."""
    return [f for f in event["findings"] if f["check"] == check]
