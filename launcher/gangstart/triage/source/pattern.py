"""Where a job's output is: Slurm's %-patterns, and those of NCCL_DEBUG_FILE. Pure.

Slurm's: sbatch(1) and srun(1), "filename pattern". A pattern with a backslash is taken
as it stands. A number between % and the letter pads numbers with zeros (at most 10).
What stands for several files (%t one per task, %n and %N one per node) becomes a
``Wild``: the files that exist tell which there are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gangstart.triage.source.record import Record, StepRecord

TOKEN = re.compile(r"%(?:(\d{1,9})?([A-Za-z])|%)")
PAD_MOST = 10  # digits; Slurm ignores a wider one down to this
ARRAY_DIGIT = 10  # %b is the task's number modulo this
BATCH = "batch"
NO_TASK = 0xFFFFFFFE  # what Slurm takes for %a and %b outside of an array (NO_VAL)
NODE = r"[A-Za-z0-9][A-Za-z0-9._-]*"
NUMBER = r"\d+"
PARTS_MOST = 64  # components of a path


@dataclass(frozen=True)
class Names:
    """What the patterns of one job's step stand for."""

    job: int
    array: int | None = None
    task: int | None = None
    name: str = ""
    user: str = ""
    step: str = BATCH
    node: str = ""  # where the batch script runs
    work_dir: str = ""

    @classmethod
    def of(cls, record: Record, step: StepRecord | None = None) -> Names:
        """The names of a job's batch script, or of one of its steps."""
        return cls(
            job=record.number,
            array=record.array,
            task=record.task,
            name=record.name,
            user=record.user,
            step=step.name if step else BATCH,
            node=record.nodes[0] if record.nodes else "",
            work_dir=record.work_dir,
        )


@dataclass(frozen=True)
class Wild:
    """A path with parts that several files share.

    `parts` are the components below /: a text, or a pattern for a component that stands
    for several; its groups ``rank``, ``node`` and ``nodeid`` tell whose file it is.
    """

    parts: tuple[str | re.Pattern[str], ...]

    @property
    def fixed(self) -> str | None:
        """The path, if it stands for one file only."""
        if any(isinstance(part, re.Pattern) for part in self.parts):
            return None
        return "/" + "/".join(str(part) for part in self.parts)

    def __str__(self) -> str:
        """Show it as a person would write it."""
        shown = (p if isinstance(p, str) else p.pattern for p in self.parts)
        return "/" + "/".join(shown)


def expand(pattern: str, names: Names) -> Wild | None:
    """Expand the output pattern of a job or step; None if there is no such file.

    /dev/null and srun's "all" and "none" are no files.
    """
    if not pattern or pattern in {"/dev/null", "none", "all"} or "\0" in pattern:
        return None
    if pattern.isdecimal():  # srun -o RANK: the terminal, of one task
        return None
    literal = "\\" in pattern
    path = pattern.replace("\\", "") if literal else pattern
    meant = (lambda part: part) if literal else (lambda part: fill(part, names))
    return build(path, names.work_dir, meant)


def build(
    path: str, work_dir: str, fill_part: Callable[[str], str | re.Pattern[str]]
) -> Wild | None:
    """Make the components of a path that may be relative to the working directory."""
    whole = PurePosixPath(path)
    if not whole.is_absolute():
        if not work_dir.startswith("/"):
            return None
        base = PurePosixPath(work_dir).parts[1:]
    else:
        base = ()
    own = whole.parts[1:] if whole.is_absolute() else whole.parts
    if not own or len(base) + len(own) > PARTS_MOST:
        return None
    return Wild((*base, *(fill_part(part) for part in own)))


def fill(part: str, names: Names) -> str | re.Pattern[str]:
    """One component: a text, or a pattern if it stands for several files."""
    values = single(names)
    many = several(names)
    out: list[tuple[str, bool]] = []
    at = 0
    for token in TOKEN.finditer(part):
        out.append((part[at : token.start()], False))
        out.append(meaning(token, values, many))
        at = token.end()
    out.append((part[at:], False))
    if not any(wild for _, wild in out):
        return "".join(text for text, _ in out)
    seen: set[str] = set()
    return re.compile(
        "".join(once(text, seen) if wild else re.escape(text) for text, wild in out)
    )


def once(group: str, seen: set[str]) -> str:
    """A named group; the second time of a name a reference to the first."""
    if not group.startswith("(?P<"):
        return group
    name = group[4 : group.index(">")]
    if name in seen:
        return f"(?P={name})"
    seen.add(name)
    return group


def meaning(
    token: re.Match[str], values: Mapping[str, str], many: Mapping[str, str]
) -> tuple[str, bool]:
    """What one token stands for, and whether that is a pattern."""
    letter = token[2]
    if letter is None:
        return "%", False
    if letter in many:
        return many[letter], True
    if letter not in values:
        return token[0], False
    value = values[letter]
    width = min(int(token[1] or 0), PAD_MOST)
    return (value.zfill(width) if value.isdecimal() else value), False


def single(names: Names) -> dict[str, str]:
    """Letters with one value for the whole step."""
    batch = names.step == BATCH
    array = names.job if names.array is None else names.array
    task = NO_TASK if names.task is None else names.task
    found = {
        "A": str(array),
        "a": str(task),
        "J": str(names.job) if batch else f"{names.job}.{names.step}",
        "j": str(names.job),
        "s": names.step,
        "u": names.user,
        "x": names.name,
    }
    if batch:  # one process on the first node
        found |= {"t": "0", "n": "0", "N": names.node.partition(".")[0]}
    return found


def several(names: Names) -> dict[str, str]:
    """Letters with a value for each task or node."""
    # 22.05 leaves %b as it is, later releases have it.
    task = NO_TASK if names.task is None else names.task
    array = {"b": f"(?:%b|{task % ARRAY_DIGIT})"}
    if names.step == BATCH:
        return array
    return array | {
        "t": f"(?P<rank>{NUMBER})",
        "n": f"(?P<nodeid>{NUMBER})",
        "N": f"(?P<node>{NODE})",
    }


def nccl(pattern: str, work_dir: str) -> Wild | None:
    """Expand NCCL_DEBUG_FILE: %h is the host's name, %p the pid, %% one %."""
    if not pattern or "\0" in pattern:
        return None
    tokens = {"h": f"(?P<node>{NODE})", "p": f"(?P<pid>{NUMBER})"}

    def part(text: str) -> str | re.Pattern[str]:
        found = re.split(r"%([hp%])", text)
        if len(found) == 1:
            return text
        seen: set[str] = set()
        made = (
            re.escape(piece)
            if index % 2 == 0
            else ("%" if piece == "%" else once(tokens[piece], seen))
            for index, piece in enumerate(found)
        )
        return re.compile("".join(made))

    return build(pattern, work_dir, part)


#: What torchrun leaves below --log-dir: RUN/attempt_N/LOCAL_RANK/FILE.
TORCHRUN = (
    re.compile(r".+"),
    re.compile(r"attempt_(?P<attempt>\d{1,6})"),
    re.compile(r"(?P<local>\d{1,6})"),
    re.compile(r"(?:stdout|stderr)\.log|error\.json"),
)


def torchrun(log_dir: str, work_dir: str) -> Wild | None:
    """Logs and error files of the workers that torchrun started."""
    found = build(log_dir, work_dir, lambda part: part)
    return Wild((*found.parts, *TORCHRUN)) if found else None
