"""Who this process is: its step, rank, node and peers, from whatever started it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gangstart.errors import GangstartError
from gangstart.job import environ
from gangstart.run.launched import (
    SRUN,
    is_task_step,
    launched,
    node_name,
    number,
    own_step,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gangstart.run.launched import Launched

EXIT_CONFIG = 78
REPORT_MAX = 1 << 29
#: What a step's own folder on a node ends in, see spool.h.
SPOOLED = ("sys", "start.json")

Started = Literal["plugin", "run", "slurm", "mpi", "torch", "single"]


@dataclass(frozen=True)
class Step:
    """One process of a distributed program. None: not known.

    ``started``: by srun --gang-start ("plugin"), by gangstart run ("run"), by srun
    alone ("slurm"), by mpirun alone ("mpi"), by whatever set RANK and WORLD_SIZE
    ("torch"), or by nobody: a world of one ("single").
    """

    started: Started
    rank: int  # 0 <= rank < world_size
    world_size: int
    local_rank: int | None  # on this node
    local_world_size: int | None
    node: str
    node_rank: int | None
    node_count: int | None
    job_id: int | None
    step_id: int | None
    restart: int  # how often the job had been requeued before this run
    master_addr: str | None
    master_port: int | None
    report_path: Path | None
    spool: Path | None  # the step's folder on this node; user/ below it is ours
    meet_addr: str | None  # of rank 0's node, proven reachable by the start
    layout: tuple[tuple[str, int], ...] = ()  # node, tasks; ranks in this order
    _read: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def report(self) -> Mapping[str, Any] | None:
        """The start report (docs/report.schema.json); None while there is none.

        It is written when the tasks are released, so it may come a moment later.
        """
        if not self._read and self.report_path is not None:
            self._read.update(read_report(self.report_path) or {})
        return self._read or None

    @property
    def peers(self) -> Mapping[int, str]:
        """Rank -> node, as far as it is known: by the report, or by Slurm's layout."""
        told = (self.report or {}).get("nodes")
        found = by_report(told) if isinstance(told, list) else {}
        return {
            self.rank: self.node,
            **by_layout(self.layout, self.world_size),
            **found,
        }


def read_report(path: Path) -> dict[str, Any] | None:
    """A report as it is on disk; None if it is not there or is none."""
    try:
        with path.open("rb") as file:
            made = json.loads(file.read(REPORT_MAX))
    except (OSError, ValueError, RecursionError):
        return None
    return made if isinstance(made, dict) else None


def by_report(nodes: list[Any]) -> dict[int, str]:
    """Rank -> node of the nodes that a report lists; it may be another user's word."""
    found: dict[int, str] = {}
    for node in nodes:
        if not isinstance(node, dict) or not isinstance(node.get("tasks"), list):
            continue
        for task in node["tasks"]:
            rank = task.get("rank") if isinstance(task, dict) else None
            if isinstance(rank, int) and isinstance(node.get("name"), str):
                found[rank] = node["name"]
    return found


def by_layout(layout: tuple[tuple[str, int], ...], world: int) -> dict[int, str]:
    """Rank -> node where ranks follow the list of nodes; {} if it does not add up."""
    names = [node for node, count in layout for _ in range(count)]
    return dict(enumerate(names)) if len(names) == world else {}


def slurm_layout(env: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """Nodes and tasks of a Slurm step; () unless ranks follow the list of nodes."""
    nodes = env.get("SLURM_STEP_NODELIST", "")
    counts = env.get("SLURM_STEP_TASKS_PER_NODE", "")
    way = env.get("SLURM_DISTRIBUTION", "block").partition(":")[0]
    if not nodes or not counts or "SLURM_HET_SIZE" in env:
        return ()
    from gangstart import core  # noqa: PLC0415 - the C core, not for a world of one

    try:
        names, tasks = core.expand(nodes), core.task_counts(counts)
    except GangstartError:
        return ()
    follows = way.startswith("block") or set(tasks) == {1}
    return (
        tuple(zip(names, tasks, strict=True))
        if follows and len(names) == len(tasks)
        else ()
    )


def started_by(env: Mapping[str, str], told: Launched) -> Started:
    """Who started this process. What an outer step left behind does not count."""
    if env.get("GANGSTART_RUN") == own_step(env):
        return "run"
    if env.get("GANGSTART_STEP") == own_step(env):
        return "plugin"
    if told.by is not None and ("GANGSTART_STEP" in env or "RANK" not in env):
        return "slurm" if told.by == SRUN else "mpi"
    return "torch" if "RANK" in env and "WORLD_SIZE" in env else "single"


def whole(env: Mapping[str, str], name: str) -> int | None:
    """A variable as a number; None if it is not set. Raises GangstartError (78)."""
    value = number(env, name)
    if value is None and env.get(name):
        raise GangstartError(
            f"current: {name}={env[name][:60]!r} is no number; set it as torchrun and "
            "gang start do, or leave it unset",
            exit_code=EXIT_CONFIG,
        )
    return value


def ranks(
    env: Mapping[str, str], started: Started, told: Launched
) -> tuple[int, int, int | None, int | None]:
    """Rank, world, local rank, local world. Raises GangstartError (78)."""
    found: tuple[int | None, ...] = (0, 1, 0, 1)
    if started in {"slurm", "mpi"}:
        found = (told.rank, told.size, told.local_rank, told.local_size)
    elif started != "single":
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        found = tuple(whole(env, name) for name in names)
    rank, world, local, locals_ = found
    if rank is None and started == "plugin":  # env=none: Slurm's own are left
        rank, world, local, locals_ = (
            told.rank, told.size, told.local_rank, told.local_size
        )  # fmt: skip
    if rank is None or world is None or not rank < world:
        raise GangstartError(
            f"current: rank {rank} of a world of {world}: both have to be set, and the "
            "rank has to be below the size; look at RANK and WORLD_SIZE",
            exit_code=EXIT_CONFIG,
        )
    return rank, world, local, locals_


def folder(env: Mapping[str, str], started: Started) -> Path | None:
    """The step's folder on this node; None: there is none."""
    if started == "run" and env.get("GANGSTART_SPOOL", "").startswith("/"):
        return Path(env["GANGSTART_SPOOL"])
    report = Path(env.get("GANGSTART_REPORT") or "/")
    if started == "plugin" and report.parts[-2:] == SPOOLED:
        return report.parent.parent
    return None


def meet_address(env: Mapping[str, str]) -> str | None:
    """Where rank 0's node was reached; "-": its user had chosen another address."""
    proven = env.get("GANGSTART_MASTER", "").partition(" ")[0]
    return env.get("MASTER_ADDR") if proven in ("", "-") else proven


def described(env: Mapping[str, str]) -> Step:
    """The step of a process with this environment. Raises GangstartError (78)."""
    told = launched(env)
    started = started_by(env, told)
    rank, world, local, locals_ = ranks(env, started, told)
    gang = started in {"plugin", "run"}
    in_slurm = started in {"plugin", "slurm"} or (gang and is_task_step(env))
    name = env.get("GANGSTART_STEP", "") if gang else own_step(env)
    job, _, step = name.partition(".") if gang or in_slurm else ("", "", "")
    layout = slurm_layout(env) if in_slurm else ()
    single = started == "single"
    torch = gang or started == "torch"
    report = env.get("GANGSTART_REPORT", "") if gang else ""
    node_rank = number(env, "NODE_RANK") if torch else None
    if node_rank is None and in_slurm:
        node_rank = number(env, "SLURM_NODEID")
    return Step(
        started=started,
        rank=rank,
        world_size=world,
        local_rank=local,
        local_world_size=locals_,
        node=node_name(env, own_env=is_task_step(env)),
        node_rank=0 if single else node_rank,
        node_count=1 if single else number(env, "SLURM_STEP_NUM_NODES"),
        job_id=int(job) if job.isdecimal() else number(env, "SLURM_JOB_ID"),
        step_id=int(step) if step.isdecimal() else None,
        restart=number(env, "SLURM_RESTART_COUNT") or 0,
        master_addr=(env.get("MASTER_ADDR") or None) if torch else None,
        master_port=whole(env, "MASTER_PORT") if torch else None,
        report_path=Path(report) if report.startswith("/") else None,
        spool=folder(env, started),
        meet_addr=meet_address(env) if gang else None,
        layout=layout,
    )


def current() -> Step:
    """Describe this process: step, rank, node, peers, report; never waits.

    Works in a task of srun --gang-start, below gangstart run, in a plain Slurm step,
    below mpirun, with RANK and WORLD_SIZE set by anything else, and without any of it
    (a world of one). The environment is read anew at each call.

    Raises GangstartError (78) where ranks and sizes cannot be.
    """
    return described(environ())
