"""Findings about what is left over, from what was read of a node. Decides only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gangstart.check import leftover, proc
from gangstart.check.catalogue import hit
from gangstart.check.dashboard import Server, program
from gangstart.check.leftover import Job, Leftovers
from gangstart.check.result import clean
from gangstart.check.shm import maker_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangstart.check.leftover import Node, Orphan, Process
    from gangstart.check.result import Finding
    from gangstart.check.scan import Scene, Seen

RAS_PORT = 28028
#: A process says by these itself of which job it is: enough to drain a node for.
NAMED = ("cgroup", "environment")
SHOWN = 10
TOLD = 100
MIB = 1 << 20
#: UID_MIN of login.defs(5): below are the system's own users.
FIRST_USER = 1000
SERVICE = re.compile(r"/system\.slice/([^/\n]+)\.service(?=[/\s]|$)")


def ended_jobs(node: Node, judged: int | None) -> list[int]:
    """Jobs that a process names and that do not run."""
    if node.running is None:
        return []
    named = {leftover.job_of(process) for process in node.processes}
    return sorted(j for j in named if j not in (None, judged, *node.running) if j)


def left_behind(
    stage: str, job: Job | None, node: Node, gpus: Sequence[str] | None
) -> Leftovers:
    """What is left over: of the ended job, or of all that have ended."""
    if stage == "epilog" and job is not None:
        return leftover.after_job(job, node)
    coming = job or Job(0)
    parts = [without_daemons(leftover.before_job(coming, node, gpus))]
    parts += [
        leftover.after_job(Job(ended), node)
        for ended in ended_jobs(node, coming.job_id)
    ]
    return merged(parts)


def is_daemon(process: Process) -> bool:
    """Whether it is the system's: nvidia-persistenced and DCGM hold every GPU."""
    own_user = process.uid is not None and process.uid < FIRST_USER
    service = SERVICE.search(process.cgroup)
    return own_user or bool(service and not service[1].startswith("slurm"))


def without_daemons(left: Leftovers) -> Leftovers:
    """Leave out who is of no job because it is the system's."""
    kept = [o for o in left.orphans if o.job is not None or not is_daemon(o.process)]
    if len(kept) == len(left.orphans):
        return left
    ports = sorted({port for o in kept for port in o.process.ports})
    holds = any(leftover.holds_gpu(o.process) for o in kept)
    codes = [c for c in left.codes if holds or c != leftover.GPU_LEFTOVER]
    return Leftovers(tuple(kept), tuple(ports), left.shm if kept else (), tuple(codes))


def in_the_way(
    stage: str, job: Job | None, node: Node, gpus: Sequence[str] | None
) -> set[int]:
    """Processes on GPUs that the next job surely gets."""
    if stage == "epilog" and job is not None:
        return set(leftover.after_job(job, node).pids)
    if stage == "prolog" and job is not None and gpus is not None:
        return set(leftover.before_job(job, node, gpus).pids)
    return set()


def merged(parts: Sequence[Leftovers]) -> Leftovers:
    """Several as one, each process once."""
    orphans = {o.process.pid: o for part in reversed(parts) for o in part.orphans}
    return Leftovers(
        tuple(orphans[pid] for pid in sorted(orphans)),
        tuple(sorted({port for part in parts for port in part.ports})),
        tuple(sorted({name for part in parts for name in part.shm})),
        tuple(dict.fromkeys(code for part in parts for code in part.codes)),
    )


def findings(
    left: Leftovers, scene: Scene, blocking: set[int], judged: int | None
) -> list[Finding]:
    """One finding per process, one per port that matters, one for shared memory.

    A node may be drained for those that are blocking; judged is the job that ended.
    """
    found: list[Finding] = []
    # A line for each of thousands would help nobody; those on GPUs matter most.
    order = sorted(left.orphans, key=lambda o: not leftover.holds_gpu(o.process))
    for orphan in order[:TOLD]:
        seen = scene.seen[orphan.process.pid]
        may_drain = orphan.process.pid in blocking
        found.append(of_process(orphan, seen, may_drain=may_drain))
        found += of_ports(orphan, seen)
    if len(order) > TOLD:
        reason = f"{len(order) - TOLD} more processes of ended jobs are left over"
        found.append(hit("leftover_process", reason, value=str(len(order))))
    found += of_shm(left.shm, scene)
    found += of_stepds(judged, scene)
    if leftover.JOBS_UNKNOWN in left.codes:
        reason = "the running jobs cannot be told here, so little is judged left over"
        found.append(hit("running_jobs", reason))
    return found


def of_stepds(judged: int | None, scene: Scene) -> list[Finding]:
    """Say that the job that should have ended is still run by Slurm."""
    if judged is None or judged not in (scene.running or ()):
        return []
    reason = (
        f"a slurmstepd of job {judged} still runs, so nothing of the job is judged "
        "left over"
    )
    return [hit("running_jobs", reason, verdict="unknown")]


def of_process(orphan: Orphan, seen: Seen, *, may_drain: bool) -> Finding:
    """One process that is left over."""
    holds = leftover.holds_gpu(orphan.process)
    stuck = seen.state == proc.UNINTERRUPTIBLE
    named = orphan.proof in NAMED
    kind = "leftover_process"
    verdict = "warn"
    if holds:
        kind = "leftover_gpu"
        # Of no job at all may be somebody who looks at the GPUs for a moment.
        verdict = "fail" if named or stuck else "warn"
    if stuck:
        kind = "leftover_stuck"
    return hit(
        kind,
        process_sentence(orphan, seen),
        verdict=verdict,
        subject=f"pid {orphan.process.pid}",
        value=f"{orphan.process.gpu_memory_mib} MiB" if holds else seen.state,
        drain=may_drain and holds and named,
    )


def process_sentence(orphan: Orphan, seen: Seen) -> str:
    """Who it is, how that is known, what it holds."""
    process = orphan.process
    of_job = "no job" if orphan.job is None else f"job {orphan.job}, which has ended"
    known = "" if orphan.proof == "no job" else f", known by its {orphan.proof}"
    gpus = [m[1] for m in map(leftover.GPU_DEVICE.search, process.devices) if m]
    held = [
        f"GPU {' '.join(gpus)}" if gpus else "",
        f"{process.gpu_memory_mib} MiB of GPU memory" if process.gpu_memory_mib else "",
        f"port {' '.join(map(str, process.ports[:SHOWN]))}" if process.ports else "",
    ]
    holds = ", ".join(part for part in held if part)
    stuck = " hangs in the kernel (D state)," if seen.state == "D" else ""
    return (
        f"process {process.pid} ({name_of(seen)}, user {process.uid}){stuck} is of "
        f"{of_job}{known}" + (f"; it holds {holds}" if holds else "")
    )


def name_of(seen: Seen) -> str:
    """Program of a process, never its arguments."""
    return program(seen.argv) if seen.argv else clean(seen.process.command, 60)


def of_ports(orphan: Orphan, seen: Seen) -> list[Finding]:
    """Ports that a later job will miss."""
    process = orphan.process
    wanted = (process.env or {}).get("MASTER_PORT", "")
    uses = {RAS_PORT: "NCCL's RAS port"}
    if wanted.isascii() and wanted.isdigit():
        uses[int(wanted)] = "its MASTER_PORT"
    return [
        hit(
            "leftover_port",
            f"process {process.pid} ({name_of(seen)}) of job {orphan.job} still "
            f"listens on {port}, {uses[port]}",
            subject=f"pid {process.pid}",
            value=str(port),
        )
        for port in process.ports
        if port in uses
    ]


def of_shm(names: Sequence[str], scene: Scene) -> list[Finding]:
    """Shared memory that is left over, all of it together."""
    if not names:
        return []
    sizes = {f"{scene.shm_folder}/{f.name}": f.bytes for f in scene.files}
    total = sum(sizes.get(name, 0) for name in names) // MIB
    shown = ", ".join(shm_name(name) for name in names[:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    reason = f"{len(names)} files of {total} MiB are left in shared memory: "
    return [hit("leftover_shm", reason + shown + more, value=f"{len(names)} files")]


def removable(names: set[str], before: Node, now: Node, job: Job) -> set[str]:
    """What of the shared memory can be nobody's but the ended job's, and may go.

    It names the job, or only processes of the job had it until now, or its user has
    nothing else on this node.
    """
    alive = {p.pid: p.uid for p in now.processes if not p.zombie}
    held = {item.name for item in before.shm if item.holders}
    found = set[str]()
    for item in now.shm:
        in_use = set(item.holders) & set(alive)
        base = item.name.rpartition("/")[2]
        if item.name not in names or in_use or leftover.pid_in_name(base, set(alive)):
            continue
        alone = item.uid not in alive.values() and not leftover.has_job(now, item.uid)
        if leftover.shm_job(item) == job.job_id or item.name in held or alone:
            found.add(item.name)
    return found


def shm_name(path: str) -> str:
    """A file with what made it, if its name tells."""
    name = path.rpartition("/")[2]
    maker = maker_of(name)
    return clean(name, 80) + (f" ({maker})" if maker else "")


def temporary(job: Job, node: Node, scene: Scene) -> list[Finding]:
    """Files in /tmp that can only be of the ended job; they are only told of."""
    if job.uid in (None, leftover.ROOT) or leftover.has_job(node, job.uid):
        return []
    names = [
        name
        for name, uid, made in scene.tmp
        if uid == job.uid and (job.started is None or made >= job.started)
    ]
    if not names:
        return []
    shown = ", ".join(clean(name, 80) for name in names[:SHOWN])
    reason = f"{len(names)} files or folders of the job's user are in /tmp: {shown}"
    return [hit("leftover_tmp", reason, value=f"{len(names)} files")]


def servers(scene: Scene, job: int | None) -> list[Server]:
    """Processes of one job, or of all, that listen on something."""
    of_jobs = (
        (pid, leftover.job_of(seen.process), seen)
        for pid, seen in sorted(scene.seen.items())
        if seen.listeners
    )
    return [
        Server(pid, seen.process.uid, seen.argv, seen.listeners, of)
        for pid, of, seen in of_jobs
        if of is not None and job in (None, of)
    ]
