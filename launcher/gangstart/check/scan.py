"""What is on a node at this moment: processes, ports, shared memory, running jobs."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart.check import listener, proc, running, shm
from gangstart.check.leftover import (
    CONTAINER_CGROUP,
    GPU_DEVICE,
    ROOT,
    Node,
    Process,
    job_of_cgroup,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gangstart.check.listener import Listener

TMP = Path("/tmp")  # noqa: S108 - looked at; nothing is made there
TMP_NAMES = re.compile(
    r"torchelastic_|torch_|torchinductor_|ray$|ray_|vllm|nccl|pymp-|wandb|mpi|ompi\."
)
TMP_ENTRIES = 65536
KERNEL_THREADS = 2  # their parent


@dataclass(frozen=True)
class Roots:
    """Where things are; a test has its own."""

    proc: Path = Path("/proc")
    cgroup: Path = running.CGROUP_ROOT
    shm: Path = shm.FOLDER
    tmp: Path = TMP


@dataclass(frozen=True)
class Seen:
    """A process, and what the decisions about leftovers have no use for."""

    process: Process
    state: str
    start_ticks: int
    parent: int = 0
    argv: tuple[str, ...] = ()
    listeners: tuple[Listener, ...] = ()
    files: tuple[str, ...] = ()  # of shared memory
    mapped: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Scene:
    """Everything that was read of a node."""

    seen: Mapping[int, Seen]
    running: frozenset[int] | None  # None = could not be read
    files: tuple[shm.File, ...] = ()
    shm_folder: Path = shm.FOLDER
    tmp: tuple[tuple[str, int, float], ...] = ()  # name, user, when made
    own: frozenset[int] = frozenset()  # this process and its parents
    own_cgroup: str = ""

    def node(self, users: Mapping[int, int | None] | None = None) -> Node:
        """Tell the decisions about leftovers; users are those of the running jobs."""
        known = users or {}
        jobs = None if self.running is None else {j: known.get(j) for j in self.running}
        opened = {pid: seen.files for pid, seen in self.seen.items()}
        mapped = {pid: seen.mapped for pid, seen in self.seen.items()}
        files = shm.with_holders(self.files, opened, mapped, self.shm_folder)
        others = [s.process for pid, s in self.seen.items() if pid not in self.own]
        return Node(others, jobs, files)


def scan(
    roots: Roots,
    judged: int | None,
    memory_mib: Mapping[int, int] | None = None,
    open_jobs: frozenset[int] = frozenset(),
    me: int | None = None,
) -> Scene:
    """Read everything; judged is the job in question, open_jobs are known to run.

    me is the process that checks, if this one only reads for it.
    """
    files = tuple(shm.listed(roots.shm))
    reader = Reader(roots, {(f.device, f.inode) for f in files}, memory_mib or {})
    seen = {
        one.process.pid: one
        for pid in proc.pids(roots.proc)
        if (one := reader.read(pid))
    }
    checker = os.getpid() if me is None else me
    cgroup = seen[checker].process.cgroup if checker in seen else ""
    line = own_line(seen, checker)
    inside = job_of_cgroup(cgroup) or job_of_line(seen, line)
    found = running_jobs(roots, seen, judged, inside) if 1 in seen else None
    return Scene(
        seen,
        # Who cannot see process 1 sees only his own (hidepid), and no slurmstepd.
        None if found is None else found | (open_jobs - {judged}),
        files,
        roots.shm,
        tuple(temporary(roots.tmp)),
        line,
        cgroup,
    )


def running_jobs(
    roots: Roots, seen: Mapping[int, Seen], judged: int | None, inside: int | None
) -> frozenset[int]:
    """Jobs that run, by what is there; inside is the job that the check runs in."""
    titles = [(s.process.uid, s.process.command) for s in seen.values()]
    of_stepds = running.of_stepds(titles, inside if inside == judged else None)
    of_cgroups = running.of_cgroups(roots.cgroup, judged) or set()
    return frozenset(of_stepds | of_cgroups)


def own_line(seen: Mapping[int, Seen], me: int) -> frozenset[int]:
    """Who checks, and its parents: with RunInJob they are in the job's own cgroup."""
    found = set[int]()
    pid = me
    while pid in seen and pid not in found:
        found.add(pid)
        pid = seen[pid].parent
    return frozenset(found | {os.getpid()})


def job_of_line(seen: Mapping[int, Seen], line: frozenset[int]) -> int | None:
    """Job whose extern step started this check: with RunInJob, also without cgroups."""
    parents = (seen[pid].process for pid in sorted(line) if pid in seen)
    titles = (p.command for p in parents if p.uid == ROOT)
    steps = (running.step_of(title) for title in titles)
    return next((s[0] for s in steps if s and s[1] == running.EXTERN), None)


def temporary(folder: Path) -> list[tuple[str, int, float]]:
    """Files that trainings leave in /tmp: their name, user, and when they were made."""
    found: list[tuple[str, int, float]] = []
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count == TMP_ENTRIES:
                    break
                if TMP_NAMES.match(entry.name):
                    info = entry.stat(follow_symlinks=False)
                    found.append((entry.name, info.st_uid, info.st_mtime))
    except OSError:
        pass
    return sorted(found)


class Reader:
    """Reads processes; what many of them share is read once."""

    def __init__(
        self,
        roots: Roots,
        shared: set[tuple[int, int]],
        memory_mib: Mapping[int, int],
    ) -> None:
        """Shared are the files of /dev/shm; without one no mappings are read."""
        self.roots = roots
        self.shared = shared
        self.memory_mib = memory_mib
        self.boot = proc.boot_time(roots.proc)
        self.ticks = os.sysconf("SC_CLK_TCK")
        self.shm_prefix = f"{roots.shm}/"
        self.tables: dict[str, dict[int, Listener]] = {}
        self.own_network = proc.own_network(roots.proc)

    def read(self, pid: int) -> Seen | None:
        """One process; None for threads of the kernel, and for what went away."""
        with proc.process(self.roots.proc, pid) as entry:
            stat = entry.stat() if entry else None
            if entry is None or stat is None or stat.parent == KERNEL_THREADS:
                return None
            return self.seen(entry, pid, stat)

    def seen(self, entry: proc.Entry, pid: int, stat: proc.Stat) -> Seen:
        """What can be read of it without hanging where it hangs."""
        stuck = stat.state == proc.UNINTERRUPTIBLE
        # Both need a lock of its memory, which a process in the kernel may hold.
        argv = () if stuck else entry.argv()
        env = None if stuck else entry.environ()
        process = Process(
            pid=pid,
            uid=entry.uid(),
            cgroup=entry.cgroup(),
            command=" ".join(argv) or stat.name,
            env=env,
            gpu_memory_mib=self.memory_mib.get(pid, 0),
            zombie=stat.state in proc.GONE,
            started=None if self.boot is None else self.started(stat),
        )
        one = Seen(process, stat.state, stat.start_ticks, stat.parent, argv)
        return self.with_files(one, entry) if self.concerns(process) else one

    def started(self, stat: proc.Stat) -> float:
        """When it was started, on the wall clock."""
        return (self.boot or 0) + stat.start_ticks / self.ticks

    def concerns(self, process: Process) -> bool:
        """Whether its files matter: daemons of root that are of no job are innocent."""
        return not process.zombie and (
            process.uid != ROOT
            or job_of_cgroup(process.cgroup) is not None
            or bool(CONTAINER_CGROUP.search(process.cgroup))
        )

    def with_files(self, one: Seen, entry: proc.Entry) -> Seen:
        """Add devices, ports and shared memory."""
        opened = entry.open_files() or []
        devices = tuple(sorted({f for f in opened if GPU_DEVICE.fullmatch(f)}))
        listeners = self.listeners(entry, opened)
        stuck = one.state == proc.UNINTERRUPTIBLE
        maps = set() if stuck else self.mapped(entry)
        ports = tuple(sorted({each.port for each in listeners}))
        return replace(
            one,
            process=replace(one.process, devices=devices, ports=ports),
            listeners=listeners,
            files=tuple(f for f in opened if f.startswith(self.shm_prefix)),
            mapped=frozenset(maps & self.shared),
        )

    def mapped(self, entry: proc.Entry) -> set[tuple[int, int]]:
        """What it has mapped of the devices of shared memory."""
        return {
            (device, inode)
            for device in {device for device, _ in self.shared}
            for inode in entry.mapped(device)
        }

    def listeners(self, entry: proc.Entry, opened: list[str]) -> tuple[Listener, ...]:
        """What it listens on in this node's own network, not in a container's."""
        network = entry.link("ns/net")
        if network != self.own_network or not any(map(listener.SOCKET.match, opened)):
            return ()
        if network not in self.tables:
            self.tables[network] = listener.table_of(entry)
        return listener.held_by(opened, self.tables[network])
