"""Who wrote a line: the prefixes that launchers, torch, NCCL and MPI put before it."""

from __future__ import annotations

import re
from dataclasses import dataclass

ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_P^X]?"
)
CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
LABEL = re.compile(r"^ *(\d{1,6}): ?")
TORCH_RANK = re.compile(r"^\[rank(\d+)\]:? ?")
TORCHRUN = re.compile(r"^\[[A-Za-z_]\w*?(\d+)\]: ?")
TAGGED = re.compile(r"^\[\d+,(\d+)\](?:<std(?:out|err)>)?: ?")
RAY_HEAD = re.compile(
    r"^\((?:[\w.:-]+ )?(?:rank=(\d+),? ?)?pid=(\d+)(?:, ip=([\w.:-]+))?\) ?"
)
NCCL_HEAD = re.compile(r"^([\w.-]+):(\d+):(\d+) \[(\d+)\] ")
OMPI_HEAD = re.compile(r"^\[([A-Za-z][\w.-]*):(\d+)\] ")
NODE_HEAD = re.compile(r"^([A-Za-z][\w.-]*): ")
STEPD_HEAD = re.compile(r"^slurmstepd-([\w.-]+): ")
INNER_RANK = re.compile(
    r"\[(?:PG [^\]]*?)?Rank (\d+)\]|\[rank: ?(\d+)\]|\brank[ =:]{1,2}(\d+)\b"
    r"|\(rank (\d+)\)|\bRank (\d+):"
)
#: What ts, journald, docker --timestamps and Kubernetes (CRI) put before each line.
STAMP = re.compile(
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"(?:Z|[+-]\d\d:?\d\d)?\]? (?:std(?:out|err) [FP] )?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:[\w.-]+ [\w./-]+(?:\[\d+\])?: )?"
)
TRACEBACK = "Traceback (most recent call last)"
#: Nodes as they may stand in a command that somebody copies: n7, fe80::1, n[007,019].
HOST = re.compile(r"[A-Za-z0-9_][\w.:,\[\]-]{0,254}", re.ASCII)
INNER_FRONT = 160
FRONTS = tuple("0123456789[ ")


@dataclass
class Head:
    """What the prefixes of a line say; ``text`` is the rest of it."""

    text: str
    rank: int | None = None
    label: int | None = None  # srun -l: the task of the step
    local_rank: int | None = None
    node: str | None = None
    pid: int | None = None
    gpu: int | None = None


def clean(raw: bytes, limit: int = 4000) -> str:
    """A line as text: no escape sequences, no controls, cut to ``limit`` characters.

    Bytes that are no UTF-8 are spelt out, so that a file's name stays one that can be
    told from others. Of a line that was overwritten with carriage returns the last part
    is kept.
    """
    line = raw.rstrip(b"\r\n\x00")[: limit * 4].decode(errors="backslashreplace")
    if "\x1b" in line:
        line = ANSI.sub("", line)
    if "\r" in line:
        line = line.rsplit("\r", 1)[1]
    return CONTROL.sub("", line)[:limit]


def _take(pattern: re.Pattern[str], head: Head, name: str) -> bool:
    found = pattern.match(head.text)
    if not found:
        return False
    value = int(found[1])
    if getattr(head, name) is None:
        setattr(head, name, value)
    head.text = head.text[found.end() :]
    return True


NUMBERED = (
    (TORCH_RANK, "rank"),
    (TAGGED, "rank"),
    (TORCHRUN, "local_rank"),
    (LABEL, "label"),
)


def _ray(head: Head) -> bool:
    """Ray's prefix: an actor's name, its process, the address of its node."""
    found = RAY_HEAD.match(head.text)
    if not found:
        return False
    head.pid, head.node = int(found[2]), found[3] or head.node
    if found[1] and head.rank is None:
        head.rank = int(found[1])
    head.text = head.text[found.end() :]
    return True


def _machine(head: Head, nodes: frozenset[str]) -> bool:
    """A node at the front: NCCL's, Open MPI's, slurmstepd's, or one of the job's."""
    nccl = NCCL_HEAD.match(head.text)
    if nccl:
        head.node, head.pid, head.gpu = nccl[1], int(nccl[2]), int(nccl[4])
        return False  # the text keeps it: patterns and readers know it so
    for pattern in (OMPI_HEAD, STEPD_HEAD, NODE_HEAD):
        found = pattern.match(head.text)
        if found and (pattern is not NODE_HEAD or short(found[1]) in nodes):
            head.node = short(found[1])
            if pattern is NODE_HEAD and not head.text[found.end() :].startswith("task"):
                head.text = head.text[found.end() :]
                return True
            return False
    return False


def short(name: str) -> str:
    """A node's name without its domain; an address stays whole."""
    return name if name.replace(".", "").isdigit() else name.split(".", 1)[0]


def split(text: str, nodes: frozenset[str] = frozenset()) -> Head:
    """Take the prefixes off a cleaned line; ``nodes`` may stand in front."""
    head = Head(text)
    for _ in range(4):
        if head.text[:1] in FRONTS and any(
            _take(pattern, head, name) for pattern, name in NUMBERED
        ):
            continue
        if not _ray(head) and not _machine(head, nodes):
            break
    if head.rank is None:
        inner = INNER_RANK.search(head.text[:INNER_FRONT])
        if inner:
            head.rank = int(next(group for group in inner.groups() if group))
    return head


def unstamped(text: str, nodes: frozenset[str] = frozenset()) -> Head | None:
    """The same without the time that something put before the line; None without one.

    Only the program's own part says whether there was: see `belongs`.
    """
    found = STAMP.match(text)
    return split(text[found.end() :], nodes) if found else None


def belongs(head: Head) -> bool:
    """Whether a line that follows a time is one of those that have none themselves."""
    labels = (head.rank, head.label, head.local_rank)
    return head.text.startswith(TRACEBACK) or any(one is not None for one in labels)
