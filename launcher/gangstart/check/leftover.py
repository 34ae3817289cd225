"""What an ended job left on a node: processes, ports, shared memory. Decides only.

A process belongs to the job of its cgroup; without one to the job in its environment;
without that to its user's job, if times and all other jobs leave no other. A user's
name says nothing, nor does the process tree. Who may be innocent is never listed: if
the running jobs could not be read, nothing but the ended job's own cgroup is proof.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GPU_LEFTOVER = "GPU_LEFTOVER"
JOBS_UNKNOWN = "JOBS_UNKNOWN"

ROOT = 0
SLURM_CGROUP = re.compile(r"slurm[^\n]*?/job_(\d+)(?=[/\s]|$)")
EXTERN_STEP = re.compile(r"/step_extern(?=[/\s]|$)")
CONTAINER_CGROUP = re.compile(r"/docker[-/]|libpod|crio-|containerd|kubepods|/lxc")
LOGIN_CGROUP = re.compile(r"/user\.slice/|/session-[^/\n]*\.scope")
GPU_DEVICE = re.compile(r"/dev/nvidia(\d+)$")
JOB_ID = ("SLURM_JOB_ID", "SLURM_JOBID")
# A process id in the name of a shared-memory file: torch_4711_93_0, sem.x-4711.
PID_IN_NAME = re.compile(r"(?<![0-9A-Za-z])(\d{2,7})(?![0-9A-Za-z])")
JOB_IN_NAME = re.compile(r"job[_.-]?(\d+)(?!\d)", re.IGNORECASE)
# Slurm's own process that keeps the extern step.
KEEPER = re.compile(r"^sleep (100000000|infinity)$")


@dataclass(frozen=True)
class Process:
    """One process, as /proc and NVML show it; None where that could not be read."""

    pid: int
    uid: int | None = None
    cgroup: str = ""
    command: str = ""
    env: Mapping[str, str] | None = None
    devices: Sequence[str] = ()
    gpu_memory_mib: int = 0
    gpus: Sequence[str] = ()  # UUIDs or indices, as NVML tells them
    ports: Sequence[int] = ()
    zombie: bool = False
    started: float | None = None  # wall clock


@dataclass(frozen=True)
class Shm:
    """One file of /dev/shm; holders are the processes that have it open or mapped."""

    name: str
    uid: int | None = None
    holders: Sequence[int] = ()
    creator: int | None = None
    job: int | None = None


@dataclass(frozen=True)
class Job:
    """The job that the node is judged for."""

    job_id: int
    uid: int | None = None
    started: float | None = None
    ended: float | None = None


@dataclass(frozen=True)
class Node:
    """Everything that was read; running: job -> uid of its user, None = unreadable."""

    processes: Sequence[Process]
    running: Mapping[int, int | None] | None
    shm: Sequence[Shm] = ()


@dataclass(frozen=True)
class Orphan:
    """A process that is left over, and how that is known."""

    process: Process
    job: int | None
    proof: str  # cgroup, environment, user and time, no job


@dataclass(frozen=True)
class Leftovers:
    """What is left over."""

    orphans: Sequence[Orphan] = ()
    ports: Sequence[int] = ()
    shm: Sequence[str] = ()
    codes: Sequence[str] = field(default=())

    @property
    def pids(self) -> list[int]:
        """Their process ids."""
        return [o.process.pid for o in self.orphans]

    def message(self) -> str:
        """One sentence for people."""
        if JOBS_UNKNOWN in self.codes and not self.orphans:
            return "the running jobs could not be read, so nothing is judged left over"
        if not self.orphans and not self.shm:
            return "nothing is left over"
        held = sum(o.process.gpu_memory_mib for o in self.orphans)
        pids = " ".join(str(p) for p in self.pids) or "none"
        parts = [f"left over: processes {pids}", f"{held} MiB of GPU memory"]
        if self.ports:
            parts.append("ports " + " ".join(str(p) for p in self.ports))
        if self.shm:
            parts.append("shared memory " + " ".join(self.shm))
        return ", ".join(parts)


def job_of_cgroup(cgroup: str) -> int | None:
    """The job whose cgroup this is."""
    found = SLURM_CGROUP.search(cgroup)
    return int(found[1]) if found else None


def job_of_environment(process: Process) -> int | None:
    """The job a process was started in, by its environment.

    Root's daemons do not count unless they are containers: what a prolog starts has the
    job's variables too.
    """
    if process.env is None:
        return None
    if process.uid == ROOT and not CONTAINER_CGROUP.search(process.cgroup):
        return None
    value = next((process.env[k] for k in JOB_ID if process.env.get(k)), "")
    return int(value) if value.isascii() and value.isdigit() else None


def job_of(process: Process) -> int | None:
    """The job of a process, by its cgroup, else by its environment."""
    job = job_of_cgroup(process.cgroup)
    return job_of_environment(process) if job is None else job


def is_slurms(process: Process) -> bool:
    """Whether it is Slurm's own: it ends by itself when the job's cgroup is empty."""
    if process.command.startswith("slurmstepd"):
        return process.uid in (ROOT, None)
    return bool(
        EXTERN_STEP.search(process.cgroup) and KEEPER.match(process.command.strip())
    )


def owners(node: Node) -> dict[int, int | None]:
    """User of each running job; those Slurm did not tell by the job's processes."""
    known = dict(node.running or {})
    for process in node.processes:
        job = job_of_cgroup(process.cgroup)
        if job in known and known[job] is None and process.uid != ROOT:
            known[job] = process.uid
    return known


def has_job(node: Node, uid: int | None) -> bool:
    """Whether a user has, or may have, a running job here."""
    if node.running is None or uid is None:
        return True
    return any(owner in (uid, None) for owner in owners(node).values())


def of_user_and_time(process: Process, job: Job, node: Node) -> bool:
    """Whether it can only be of this job: user, time, no other job, no login."""
    if process.env is None or process.uid in (ROOT, None) or process.uid != job.uid:
        return False
    if None in (process.started, job.started) or LOGIN_CGROUP.search(process.cgroup):
        return False
    begun = (process.started or 0.0) >= (job.started or 0.0)
    in_time = job.ended is None or (process.started or 0.0) <= job.ended
    return begun and in_time and not has_job(node, process.uid)


def orphan_of(process: Process, job: Job, node: Node) -> Orphan | None:
    """Judge one process after the end of a job."""
    if process.zombie or is_slurms(process):
        return None
    cgroup = job_of_cgroup(process.cgroup)
    if cgroup is not None:
        found = Orphan(process, cgroup, "cgroup")
        return found if cgroup == job.job_id else None
    if node.running is None:
        return None
    named = job_of_environment(process)
    if named is not None:
        ours = named == job.job_id and (job.uid is None or process.uid == job.uid)
        return Orphan(process, named, "environment") if ours else None
    if of_user_and_time(process, job, node):
        return Orphan(process, job.job_id, "user and time")
    return None


def holds_gpu(process: Process) -> bool:
    """Whether it has a GPU open or memory on one."""
    return process.gpu_memory_mib > 0 or any(map(GPU_DEVICE.search, process.devices))


def holds_one_of(process: Process, gpus: Sequence[str] | None) -> bool:
    """Whether it is on one of these GPUs (indices, UUIDs or devices; None: on any)."""
    if gpus is None:
        return holds_gpu(process)
    wanted = {gpu.removeprefix("/dev/").removeprefix("nvidia") for gpu in gpus}
    open_on = {m[1] for m in map(GPU_DEVICE.search, process.devices) if m}
    if open_on or process.gpus:
        return bool(wanted & (open_on | set(process.gpus)))
    return process.gpu_memory_mib > 0


def blocker_of(
    process: Process, job: Job, node: Node, gpus: Sequence[str] | None
) -> Orphan | None:
    """Judge one process before the start of a job: who has no right to its GPUs."""
    if process.zombie or is_slurms(process) or not holds_one_of(process, gpus):
        return None
    if node.running is None:
        return None
    cgroup = job_of_cgroup(process.cgroup)
    owner = job_of(process)
    if owner is not None:
        innocent = owner == job.job_id or owner in node.running
        proof = "environment" if cgroup is None else "cgroup"
        return None if innocent else Orphan(process, owner, proof)
    if process.uid in (ROOT, None):
        return None
    # Of no job at all; unless its environment is unreadable, where Slurm may have put
    # it without a cgroup.
    if process.env is None and has_job(node, process.uid):
        return None
    return Orphan(process, None, "no job")


def pid_in_name(name: str, known: set[int]) -> int | None:
    """A process that a file is named after, if it is one of those known."""
    found = (int(m) for m in PID_IN_NAME.findall(name))
    return next((pid for pid in found if pid in known), None)


def shm_job(item: Shm) -> int | None:
    """The job a file is of by what was told, or by its name."""
    if item.job is not None:
        return item.job
    named = JOB_IN_NAME.search(item.name)
    return int(named[1]) if named else None


def shm_left(item: Shm, job: Job, node: Node, orphans: set[int]) -> bool:
    """Whether a file in /dev/shm is left over: nobody else can be using it."""
    alive = {p.pid for p in node.processes if not p.zombie}
    holders = {*item.holders} & alive
    by_name = pid_in_name(item.name, alive)
    made_by = item.creator if item.creator in alive else by_name
    if holders - orphans or (not holders and made_by and made_by not in orphans):
        return False
    if holders or made_by:
        return True
    if node.running is None or item.uid in (ROOT, None):
        return False
    named = shm_job(item)
    if named is not None:
        return named == job.job_id
    if has_job(node, item.uid):
        return False
    users = {p.pid for p in node.processes if p.uid == item.uid and not p.zombie}
    ours = item.uid == job.uid or any(
        p.uid == item.uid and p.pid in orphans for p in node.processes
    )
    return ours or not users - orphans


def collect(
    job: Job, node: Node, orphans: Sequence[Orphan], *, judge_shm: bool
) -> Leftovers:
    """Everything that belongs to the orphans."""
    pids = {o.process.pid for o in orphans}
    ports = sorted({port for o in orphans for port in o.process.ports})
    shm = [s.name for s in node.shm if judge_shm and shm_left(s, job, node, pids)]
    codes = [GPU_LEFTOVER] if any(holds_gpu(o.process) for o in orphans) else []
    if node.running is None:
        codes.append(JOBS_UNKNOWN)
    return Leftovers(tuple(orphans), tuple(ports), tuple(shm), tuple(codes))


def after_job(job: Job, node: Node) -> Leftovers:
    """What the ended job left: its own, and nothing of any other job."""
    if node.running is not None and job.job_id in node.running:
        return Leftovers()  # it runs again: requeued
    found = [orphan_of(p, job, node) for p in node.processes]
    orphans = [o for o in found if o is not None]
    return collect(job, node, orphans, judge_shm=True)


def before_job(job: Job, node: Node, gpus: Sequence[str] | None = None) -> Leftovers:
    """What is on the GPUs that a job is about to get and is of no running job."""
    found = [blocker_of(p, job, node, gpus) for p in node.processes]
    orphans = [o for o in found if o is not None]
    return collect(job, node, orphans, judge_shm=bool(orphans))
