"""Who started this process, and which rank of how many it is by that word.

How to add a launcher: a row in LAUNCHERS, before those whose variables it inherits.
"""

from __future__ import annotations

import os

from gangstart.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Step ids from here on are batch, extern, interactive: no step of tasks.
SPECIAL_STEP = 0xFFFFFFF0
DAEMON = "hydra_pmi_proxy"  # MPICH's, one for each node of a start
DIGITS = 20  # of the largest number of 64 bits
DEPTH = 32  # processes between it and a rank


OPEN_MPI, MPICH, SRUN = "Open MPI's mpirun", "MPICH's mpiexec", "srun"


class Launcher(Record):
    """The variables in which a launcher tells a rank who it is."""

    name: str
    rank: str
    sizes: tuple[str, ...]  # the first that is set
    local_rank: str
    local_size: str  # a number, or SLURM_GTIDS, a list of ranks
    own_env: bool = True  # its ranks have their own node's environment


#: mpirun of Open MPI and of MPICH start their own daemons by srun, so the variables
#: of Slurm that their ranks see are those of a daemon.
LAUNCHERS = (
    Launcher(
        OPEN_MPI,
        "OMPI_COMM_WORLD_RANK",
        ("OMPI_COMM_WORLD_SIZE",),
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    Launcher(
        MPICH,
        "PMI_RANK",
        ("PMI_SIZE",),
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        own_env=False,  # that of mpiexec, a batch script's first node for instance
    ),
    Launcher(
        SRUN,
        "SLURM_PROCID",
        ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        "SLURM_LOCALID",
        "SLURM_GTIDS",
    ),
)
NO_PMI = "no PMI"
#: Variable -> the kind of process manager interface it belongs to.
PMI_KINDS = {
    "PMIX_RANK": "PMIx",
    "PMI2_RANK": "PMI2",
    "PMI_FD": "PMI",
    "PMI_PORT": "PMI",
}


class Launched(Record):
    """What the launcher says; None = it does not say."""

    by: str | None
    rank: int | None
    size: int | None
    local_rank: int | None
    local_size: int | None
    start: str  # the same on all ranks of this node and this start, "" = not known
    pmi: str  # "PMIx", "PMI2", "PMI" or "no PMI"
    node: str
    step: tuple[int, int, int] | None  # job, step, restart count of a Slurm step
    job: int | None  # the allocation's, also where the launcher is not srun
    local_ranks: tuple[int, ...] = ()  # of this node, () = it does not say


def number(env: Mapping[str, str], name: str) -> int | None:
    """A variable as a number; None if it is not set, no number or longer than any."""
    value = env.get(name, "")
    fits = value.isascii() and value.isdecimal() and len(value) <= DIGITS
    return int(value) if fits else None


def by_launcher(env: Mapping[str, str]) -> Launcher | None:
    """The launcher whose variables are there; srun only for a real step of tasks."""
    for one in LAUNCHERS:
        if number(env, one.rank) is None:
            continue
        if one.rank == "PMI_RANK" and "MPI_LOCALRANKID" not in env:
            continue  # Slurm's own PMI sets PMI_RANK, too
        if one.name == SRUN and not is_task_step(env):
            continue
        return one
    return None


def is_task_step(env: Mapping[str, str]) -> bool:
    """Whether this is a task of an ordinary Slurm step."""
    step = number(env, "SLURM_STEP_ID")
    return step is not None and step < SPECIAL_STEP and bool(env.get("SLURM_JOB_ID"))


def own_step(env: Mapping[str, str]) -> str:
    """JOB.STEP of the Slurm step around this process, "-" outside of one."""
    if "SLURM_JOB_ID" not in env or "SLURM_STEP_ID" not in env:
        return "-"
    return f"{env['SLURM_JOB_ID']}.{env['SLURM_STEP_ID']}"


def node_name(env: Mapping[str, str], *, own_env: bool) -> str:
    """Slurm's name of this node, else the host's without its domain.

    Without own_env the environment is of another node, a batch script's first one.
    """
    told = env.get("SLURMD_NODENAME") if own_env else ""
    return told or os.uname().nodename.partition(".")[0]


def launched(env: Mapping[str, str]) -> Launched:
    """Read what the launcher told this process."""
    one = by_launcher(env)
    kinds = [kind for name, kind in PMI_KINDS.items() if name in env]
    job = number(env, "SLURM_JOB_ID")
    step = None
    if one is not None and one.name == SRUN:
        restart = number(env, "SLURM_RESTART_COUNT") or 0
        step = (job or 0, number(env, "SLURM_STEP_ID") or 0, restart)
    sizes = [number(env, name) for name in one.sizes] if one else []
    return Launched(
        by=one.name if one else None,
        rank=number(env, one.rank) if one else None,
        size=next((size for size in sizes if size is not None), None),
        local_rank=number(env, one.local_rank) if one else None,
        local_size=local_size(env, one.local_size) if one else None,
        start=start_name(env, step, one.name) if one else "",
        pmi=kinds[0] if kinds else NO_PMI,
        node=node_name(env, own_env=one is None or one.own_env),
        step=step,
        job=job,
        local_ranks=local_ranks(env) if step is not None else (),
    )


def local_size(env: Mapping[str, str], name: str) -> int | None:
    """Tasks on this node, from a number or a list of ranks."""
    if "," in env.get(name, "") or name == "SLURM_GTIDS":
        return len([one for one in env.get(name, "").split(",") if one]) or None
    return number(env, name)


def local_ranks(env: Mapping[str, str]) -> tuple[int, ...]:
    """The ranks of this node, where srun lists them."""
    words = env.get("SLURM_GTIDS", "").split(",")
    return tuple(int(word) for word in words if word.isascii() and word.isdecimal())


def start_name(
    env: Mapping[str, str], step: tuple[int, int, int] | None, by: str
) -> str:
    """A name that the tasks of one start on one node share, fit for a file's name.

    "" where there is none: two tasks that took different names would miss each other.
    """
    if step is not None:
        return f"{step[0]}.{step[1]}.{step[2]}"
    name = daemon(os.getppid()) if by == MPICH else env.get("PMIX_NAMESPACE", "")
    return "".join(c if c.isalnum() or c in "-._" else "-" for c in name)[:100]


def daemon(pid: int) -> str:
    """MPICH's daemon above a process, whatever shells are between; "" = it is not seen.

    With the ticks of its start, since a pid comes again.
    """
    for _ in range(DEPTH):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                head, _, tail = file.read().rpartition(")")
        except OSError:
            return ""
        words = tail.split()
        if head.endswith(f"({DAEMON[:15]}"):  # as much as the kernel keeps
            return f"daemon-{pid}-{words[19]}"
        pid = int(words[1])
    return ""
