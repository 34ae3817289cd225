"""Which files a job wrote, as far as its record tells. Pure up to `look`.

Output and error file of the batch script, of each step that was given its own, of
torchrun's workers, of NCCL. Where the record has no path (the accounting of old
releases), what the script or the submit line says counts, and else Slurm's default;
that one is marked as a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gangstart.triage.model import Outcome, SourceState
from gangstart.triage.source import cmdline, pattern, script
from gangstart.triage.source.peek import FoundFile, Peeker, PeekError, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gangstart.triage.source.pattern import Names, Wild
    from gangstart.triage.source.record import Record
    from gangstart.triage.source.script import Script

DEFAULT, DEFAULT_ARRAY = "slurm-%j.out", "slurm-%A_%a.out"
#: Spelling -> what it is called here. srun, sbatch; see their manual pages.
IO_OPTIONS = {"-o": "out", "--output": "out", "-e": "err", "--error": "err"}
TORCHRUN_OPTIONS = {"--log-dir": "log", "--log_dir": "log"}


@dataclass(frozen=True)
class Wish:
    """Files that may exist: where, and why they are thought to."""

    wild: Wild
    what: str  # "output of the batch script", "output of step 0"
    guessed: bool = False


@dataclass(frozen=True)
class JobFile:
    """A file of the job that exists."""

    file: FoundFile
    what: str


def wishes(records: Sequence[Record], text: str = "") -> list[Wish]:
    """What to look for, of the newest runs of a job; each path once.

    `text` is the batch script, as far as it is known.
    """
    made: dict[str, Wish] = {}
    for record in records:
        said = script.read(text, script.variables(record), IO_OPTIONS)
        found = (*batch(record, said), *of_steps(record), *of_script(record, said))
        for wish in found:
            made.setdefault(str(wish.wild), wish)
    return list(made.values())


def of_script(record: Record, said: Script) -> list[Wish]:
    """Files of NCCL and torch that a batch script names."""
    where = record.work_dir
    names = pattern.Names.of(record)
    found = [(pattern.nccl(path, where), "NCCL's log") for path in said.nccl]
    found += [
        (pattern.torchrun(path, where), "torchrun's workers") for path in said.log
    ]
    found += [
        (pattern.expand(path.replace("%", "%%"), names), "torch's error file")
        for path in said.error
    ]
    return [Wish(wild, what) for wild, what in found if wild]


def batch(record: Record, said: Script) -> list[Wish]:
    """Output and error file of the batch script."""
    told = cmdline.split(record.submit_line)
    # The command line has the last word.
    given = {**said.options, **cmdline.slurm_options(told, IO_OPTIONS)}
    names = pattern.Names.of(record)
    out = record.stdout or given.get("out", "")
    err = record.stderr or given.get("err", "")
    what = "output of the batch script"
    if out or not is_batch(record, told):
        found = [(out, what), (err, "errors of the batch script")]
        return made(found, names)
    default = DEFAULT if record.array is None else DEFAULT_ARRAY
    guess = [
        Wish(one.wild, one.what, guessed=True) for one in made([(default, what)], names)
    ]
    return guess + made([(err, "errors of the batch script")], names)


def is_batch(record: Record, told: Sequence[str]) -> bool:
    """Whether the job has a batch script: srun and salloc leave no file."""
    if any(step.name == pattern.BATCH for step in record.steps):
        return True
    return bool(told) and told[0].rpartition("/")[2] == "sbatch"


def of_steps(record: Record) -> list[Wish]:
    """Files of the steps, and of torchrun in them."""
    found: list[Wish] = []
    for step in record.steps:
        if step.name == pattern.BATCH:
            continue
        names = pattern.Names.of(record, step)
        told = cmdline.split(step.submit_line)
        given = cmdline.slurm_options(told, IO_OPTIONS)
        pairs = [
            (given.get("out", "") or step.stdout, f"output of step {step.name}"),
            (given.get("err", "") or step.stderr, f"errors of step {step.name}"),
        ]
        found += made(pairs, names)
        logs = cmdline.program_options(told, TORCHRUN_OPTIONS).get("log")
        wild = pattern.torchrun(logs, record.work_dir) if logs else None
        if wild:
            found.append(Wish(wild, f"torchrun's workers in step {step.name}"))
    return found


def made(pairs: Iterable[tuple[str, str]], names: Names) -> list[Wish]:
    """Wishes of the patterns that stand for files."""
    wild = ((pattern.expand(path, names), what) for path, what in pairs)
    return [Wish(one, what) for one, what in wild if one]


def look(
    record: Record,
    wanted: Sequence[Wish],
    own_uid: int,
    peeker: Callable[[int], Peeker] = Peeker,
) -> tuple[list[JobFile], SourceState]:
    """Which of the files exist, looked at as the job's user; never raises."""
    refused = refusal(record.uid, record.user, own_uid)
    if refused:
        return [], SourceState("job files", Outcome.UNREACHABLE, refused.why)
    found: list[JobFile] = []
    lacking: list[str] = []
    try:
        with peeker(record.uid or 0) as eyes:
            for wish in wanted:
                files = eyes.find(wish.wild)
                found += [JobFile(one, wish.what) for one in files]
                lacking += [] if files else [str(wish.wild)]
    except PeekError as error:
        return found, SourceState("job files", Outcome.UNREACHABLE, str(error))
    if found:
        return found, SourceState("job files", Outcome.USED, f"{len(found)} files")
    why = f"none of {', '.join(lacking)} exists" if lacking else "the record names none"
    return [], SourceState("job files", Outcome.EMPTY, why)
