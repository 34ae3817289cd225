"""Is the MPI world the one that the launcher started? Pure.

Only what MPI and the launcher say about each other is judged here; contradictions
among Slurm's own variables are found by the environment plan of the C core.
"""

from __future__ import annotations

from gangstart.core import fold_ranks
from gangstart.record import Record
from gangstart.run.launched import MPICH, OPEN_MPI, SRUN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SINGLETON = "MPI_SINGLETON"
MISMATCH = "WORLD_MISMATCH"
RANK_ORDER = "RANK_ORDER"


class Speech(Record):
    """How an MPI library talks to the process manager that started it."""

    library: str
    pmi: str  # as in launched.PMI_KINDS
    srun: str  # of srun --mpi=
    launcher: str  # as in launched.LAUNCHERS


#: As they are built by distributions and on PyPI. Intel MPI is MPICH's kin.
SPEECH = (
    Speech("Open MPI", "PMIx", "pmix", OPEN_MPI),
    Speech("MPICH", "PMI", "pmi2", MPICH),
    Speech("Intel MPI", "PMI", "pmi2", MPICH),
)


class Proc(Record):
    """One process: what the launcher says of it (None: nothing) and what MPI says."""

    rank: int | None
    size: int | None
    mpi_rank: int
    mpi_size: int
    node: str = ""


class Judged(Record):
    """What was found; ranks are the ones to use, one for each process, in order."""

    code: str = ""  # why it cannot start, "" = it can
    message: str = ""
    warnings: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()


def singleton(
    mpi_size: int, size: int | None, by: str | None, pmi: str, library: str = ""
) -> str:
    """Say why every rank is alone; "" if this one is not, or may be.

    A world of one is fine where no launcher, or one that says 1, started it. Each
    process can tell by itself: in a world of its own it has nobody to ask.
    """
    if mpi_size != 1 or size is None or size <= 1:
        return ""
    return (
        f"every rank is alone: MPI says world size 1, {by or 'the launcher'} started "
        f"{size} tasks. {library or 'MPI'} found no process manager it can talk to "
        f"(here: {pmi}); {advice(by, pmi, library)}"
    )


def speech_of(library: str) -> Speech | None:
    """What an MPI library speaks with its launcher; None: not known."""
    return next((one for one in SPEECH if library.startswith(one.library)), None)


def mismatch(by: str | None, pmi: str, library: str) -> str:
    """Say that a library cannot talk to its launcher; "" where it should be able to."""
    speech = speech_of(library)
    if speech is None or by is None or speaks(speech, by, pmi):
        return ""
    offered = pmi if by == SRUN else f"{by} ({pmi})"
    return (
        f"{library} wants {speech.pmi} and was offered {offered}; "
        f"{advice(by, pmi, library)}"
    )


def speaks(speech: Speech, by: str, pmi: str) -> bool:
    """Whether this launcher offers what the library wants."""
    return pmi == speech.pmi if by == SRUN else by == speech.launcher


def advice(by: str | None, pmi: str, library: str) -> str:
    """What to do about a library that cannot talk to its launcher."""
    speech = speech_of(library)
    if by != SRUN or speech is None:
        ours = speech.launcher if speech else "mpirun or mpiexec of the MPI"
        way = f"use {ours}, the one that belongs to what mpi4py loads"
        other = "start it with srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH); "
        first = other if by == SRUN else ""
        return f"{first}{way} (MPI4PY_MPIABI chooses it)"
    if speaks(speech, by, pmi):
        return (
            "this build of it cannot talk to Slurm, or not to this one: use "
            f"{speech.launcher} in the job"
        )
    return (
        f"start it with srun --mpi={speech.srun}; srun --mpi=list shows which this "
        "Slurm has"
    )


def judge(
    procs: Sequence[Proc], by: str | None = "srun", pmi: str = "no PMI"
) -> Judged:
    """Judge all processes that are known; ``by`` is the launcher's name."""
    alone = next(
        (said for p in procs if (said := singleton(p.mpi_size, p.size, by, pmi))), ""
    )
    if alone:
        return Judged(code=SINGLETON, message=alone)
    for proc in procs:
        if proc.size is not None and proc.size != proc.mpi_size:
            return Judged(
                code=MISMATCH,
                message=f"{by or 'the launcher'} started {proc.size} tasks, but MPI's "
                f"world has {proc.mpi_size} (rank {proc.mpi_rank} on {proc.node})",
            )
    return judge_order(procs, by)


def judge_order(procs: Sequence[Proc], by: str | None) -> Judged:
    """Choose one numbering for all: the launcher's where it is complete, else MPI's."""
    mpi = tuple(proc.mpi_rank for proc in procs)
    told = tuple(proc.rank for proc in procs if proc.rank is not None)
    if not told:
        return Judged(ranks=mpi)
    twice = sorted({rank for rank in told if told.count(rank) > 1})
    if len(told) != len(procs) or twice:
        which = f"rank {fold_ranks(twice)} twice" if twice else "not every process"
        return Judged(
            code=MISMATCH,
            message=f"{by or 'the launcher'} gave {which} a rank: the processes are "
            "not those of one start; start all of them with one launcher",
        )
    if told == mpi:
        return Judged(ranks=told)
    moved = [rank for rank, other in zip(told, mpi, strict=True) if rank != other]
    return Judged(
        ranks=told,
        warnings=(RANK_ORDER,),
        message=f"MPI numbers ranks {fold_ranks(moved)} differently than "
        f"{by or 'the launcher'}; RANK is the launcher's on every rank, so do not mix "
        "it with MPI's in one program",
    )
