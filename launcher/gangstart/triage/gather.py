"""Logs to events: the scan names lines, the table reads them, prefixes say of whom."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gangstart.triage import clock, prefix
from gangstart.triage.model import Event, Place
from gangstart.triage.ranks import LINE_MOST, expand
from gangstart.triage.reader import BLOCK, Block
from gangstart.triage.scan import scanner
from gangstart.triage.table import ROWS
from gangstart.triage.traceback import Summary, Traceback

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gangstart.triage.table import Row

#: Lines looked at above a hit to learn when it was and how far the job had come.
LOOK_BACK = 40
LOOK_BACK_BYTES = 8192
#: Events of one kind and writer that are kept; further ones are only counted.
KEPT = 40
#: How often a log is searched above a hit for the lines of every rank.
LOOKS = 24
PROGRESS = re.compile(
    r"(?i)\b(?:step|iter|iteration|global_step|it)\b\W{0,4}(?:\[? ?)?(\d+)"
)
FILE_RANK = re.compile(r"(?:^|[._/-])(?:rank|task|proc|r)[._-]?(\d{1,6})(?=[._/-]|$)")
NCCL_INFO = " NCCL INFO "
GROUPS = {"rank", "ranks", "node"}


@dataclass(frozen=True)
class Progress:
    """The program said how far it had come."""

    source: str
    order: int
    step: int
    time: float | None


@dataclass(frozen=True)
class Reading:
    """What is known before a log is read."""

    nodes: frozenset[str] = frozenset()
    near: float | None = None  # about when the job ran
    node: str | None = None  # whose log it is, if one node's
    rank: int | None = None
    kernel: bool = False  # times may count from the node's boot
    boot: float | None = None


def rank_of_file(source: str) -> int | None:
    """Rank that a file's name gives: rank_3.log, attempt_0/3/stderr.log."""
    found = FILE_RANK.search(source.lower())
    if found is None:
        found = re.search(r"attempt_\d+/(\d+)/std(?:err|out)", source)
    return int(found[1]) if found else None


def node_of_file(source: str, nodes: frozenset[str]) -> str | None:
    """Node that a file's name gives, if it is one of the job's."""
    parts = re.split(r"[._/]", source.rsplit("/", 1)[-1])
    return next((part for part in parts if part in nodes), None)


@dataclass
class Log:
    """One log while it is read: feed it blocks, then take its events."""

    source: str
    reading: Reading
    events: list[Event] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    lines: int = 0
    last_time: float | None = None
    attempt: int = 0
    #: The newest line of each rank near something that was found, to see who lives.
    last_lines: dict[int, Event] = field(default_factory=dict)
    _open: dict[object, Traceback] = field(default_factory=dict)
    _summary: Summary | None = None
    _kept: dict[object, list[Event]] = field(default_factory=dict)
    _looks: int = 0
    _ignored: object = None
    # Writer -> line and time of the newest line with a time of its own.
    _times: dict[object, tuple[int, float]] = field(default_factory=dict)

    def feed(self, block: Block) -> None:
        """Read whole lines."""
        data, at, line = block.data, 0, self.lines + 1
        for hit in scanner().hits(data):
            at, line = self._follow(data, (at, line), hit.start)
            self._look_back(data, at, hit.start, line)
            line += data.count(b"\n", at, hit.start)
            self._line(data[hit.start : hit.end], line, hit.rows)
            at, line = hit.end + 1, line + 1
        at, line = self._follow(data, (at, line), len(data))
        self._look_back(data, at, len(data), line, last=len(data) < BLOCK)
        self.lines = line + data.count(b"\n", at) - 1

    def feed_lines(self, lines: Iterable[str]) -> None:
        """Read lines that are already apart."""
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        self.feed(Block(data, 0))

    @property
    def _following(self) -> bool:
        return bool(self._open) or self._summary is not None

    def _follow(
        self, data: bytes, where: tuple[int, int], stop: int
    ) -> tuple[int, int]:
        """Read every line up to ``stop`` while a block of lines is open."""
        at, line = where
        while self._following and at < stop:
            end = data.find(b"\n", at, stop)
            end = stop if end < 0 else end
            self._line(data[at:end], line, ())
            at, line = end + 1, line + 1
        return min(at, max(stop, at)), line

    def _look_back(
        self, data: bytes, begin: int, end: int, line: int, *, last: bool = False
    ) -> None:
        """Learn time and progress from the lines just before ``end``."""
        start = begin
        begin = max(begin, end - LOOK_BACK_BYTES)
        if begin >= end:
            return
        when: float | None = None
        step: tuple[int, int] | None = None
        begin = data.rfind(b"\n", 0, begin) + 1 if begin else 0
        lines = data[begin:end].removesuffix(b"\n").split(b"\n")
        below = line + data.count(b"\n", start, end)
        self._looks += 1
        everybody = self._looks <= LOOKS or last
        for raw in reversed(lines[-LOOK_BACK:]):
            below -= 1
            text = prefix.clean(raw, 400)
            when = when if when is not None else self._time(text)
            if step is None:
                found = PROGRESS.search(text)
                step = (int(found[1]), below) if found else None
            if everybody:
                self._alive(text, below)
            elif when is not None and step is not None:
                break
        if when is not None:
            self.last_time = when
        if step is not None:
            self.progress.append(
                Progress(self.source, step[1], step[0], self.last_time)
            )

    def _alive(self, text: str, line: int) -> None:
        """Keep a plain line as the newest of its rank."""
        head, _ = self._head(text)
        rank = _number(head.rank, head.label, self.reading.rank)
        if rank is None or not head.text.strip():
            return
        when = self._time(text)
        near = self._times.get(writer_of(head), (0, 0.0))[0]
        if when is not None and line > near:
            self._times[writer_of(head)] = (line, when)
        known = self.last_lines.get(rank)
        if known is None or known.order < line:
            self.last_lines[rank] = Event(
                "line",
                head.text.strip(),
                Place(self.source, line),
                line,
                when,
                head.node or self.reading.node,
                rank,
                self.attempt,
                dated=True,
            )

    def _time(self, text: str) -> float | None:
        if self.reading.kernel:
            uptime = clock.UPTIME.match(text)
            if uptime:
                boot = self.reading.boot
                return None if boot is None else boot + float(uptime[1])
        return clock.line_time(text, self.reading.near)

    def _line(self, raw: bytes, line: int, rows: tuple[int, ...]) -> None:
        text = prefix.clean(raw)
        when = self._time(text)
        if when is not None:
            self.last_time = when
        head, stamped = self._head(text)
        writer = writer_of(head)
        if when is not None:
            self._times[writer] = (line, when)
        if self._summary is not None and self._summarised(head.text):
            return
        opened = self._open.get(writer)
        if opened is not None and self._traced(opened, writer, (head, line), rows):
            return
        self._match(head, line, when, rows)
        if stamped and writer in self._open:
            self._open[writer].stamped = True

    def _head(self, text: str) -> tuple[prefix.Head, bool]:
        """Take the prefixes off; whether a time that is not the program's was one."""
        bare = prefix.unstamped(text, self.reading.nodes)
        if bare is not None:
            opened = self._open.get(writer_of(bare))
            if prefix.belongs(bare) or (opened is not None and opened.stamped):
                return bare, True
        return prefix.split(text, self.reading.nodes), False

    def _summarised(self, text: str) -> bool:
        """Give the line to the open summary; True when it was its own."""
        summary = self._summary
        if summary is None:
            return False
        if not summary.take(text):
            self._end_summary()
        return summary.mine

    def _traced(
        self,
        opened: Traceback,
        writer: object,
        where: tuple[prefix.Head, int],
        rows: tuple[int, ...],
    ) -> bool:
        """Give the line to the open traceback; True when that was all."""
        head, line = where
        goes_on = opened.take(head.text)
        if goes_on:
            return not any(ROWS[i].kind == "traceback" for i in rows) and (
                head.text.startswith(" ") or not head.text
            )
        del self._open[writer]
        if opened.ends(head.text):
            self._raised(opened, head, line, rows)
            return True
        return False

    def _raised(
        self, opened: Traceback, head: prefix.Head, line: int, rows: tuple[int, ...]
    ) -> None:
        """Make the event of an exception with its frame."""
        if self._ignored == writer_of(head):  # Python said that it passes over this
            self._ignored = None
            return
        name, _, why = head.text.partition(":")
        extra = opened.fields() | {"exc": name.strip(), "why": why.strip()}
        for row in (ROWS[i] for i in rows):
            found = row.regex.search(head.text)
            if found and row.kind != "traceback":
                self._event(row, found.groupdict() | extra, head, line, dated=False)
                return
        plain = next(row for row in ROWS if row.kind == "exception")
        self._event(plain, extra, head, line, dated=False)

    def _match(
        self, head: prefix.Head, line: int, when: float | None, rows: tuple[int, ...]
    ) -> None:
        if NCCL_INFO in head.text:  # it also tells of plugins that are not there
            return
        for row in (ROWS[i] for i in rows):
            found = row.regex.search(head.text)
            if not found:
                continue
            if row.kind == "ignored":
                self._ignored = writer_of(head)
            elif row.kind == "traceback":
                self._open[writer_of(head)] = Traceback(line)
            elif row.kind == "elastic_root":
                self._summary = Summary(line)
            else:
                fields = {k: v for k, v in found.groupdict().items() if v is not None}
                self._event(row, fields, head, line, dated=when is not None)
            return

    def _end_summary(self) -> None:
        """Make the event of torchelastic's summary."""
        summary, self._summary = self._summary, None
        if summary is None or not summary.values:
            return
        kind = "exception" if summary.raised else "elastic_root"
        row = next(row for row in ROWS if row.kind == kind)
        fields = summary.fields()
        text = "Root Cause (first observed failure): " + ", ".join(
            f"{key} {value}" for key, value in summary.values.items()
        )
        if summary.raised and summary.inner is not None:
            text = summary.raised
            name, _, why = text.partition(":")
            fields |= summary.inner.fields() | {"exc": name, "why": why.strip()}
        made = self._event(row, fields, prefix.Head(text), summary.line, dated=False)
        at = clock.iso(fields.get("at", ""))
        if at is not None:
            made.time, made.dated = at, True

    def _event(
        self,
        row: Row,
        fields: Mapping[str, str | None],
        head: prefix.Head,
        line: int,
        *,
        dated: bool,
    ) -> Event:
        known = {k: v for k, v in fields.items() if v}
        for name in GROUPS:  # alternatives of a pattern are numbered: node2, rank3
            for again in ("2", "3"):
                value = known.pop(name + again, None)
                if value:
                    known.setdefault(name, value)
        if row.kind == "requeued":
            self.attempt = int(known.get("restart", self.attempt + 1))
        at = clock.iso(known["at"]) if "at" in known else None
        if at is None and not dated:
            at = self._own_time(head, line)
        made = Event(
            kind=row.kind,
            text=head.text.strip(),
            place=Place(self.source, line),
            order=line,
            time=at if at is not None else self.last_time,
            node=self._node(known, head),
            rank=_number(known.pop("rank", None), head.rank, self.reading.rank),
            attempt=self.attempt,
            fields=known,
            ranks=expand(known.get("ranks", ""), LINE_MOST),
            dated=dated or at is not None or self.reading.node is not None,
        )
        for name in ("label", "local_rank", "gpu", "pid"):
            value = getattr(head, name)
            if value is not None:
                made.fields.setdefault(name, str(value))
        self._keep(made)
        return made

    def _own_time(self, head: prefix.Head, line: int) -> float | None:
        """When the same rank last gave a time, if that was just before."""
        if head.rank is None and head.label is None:
            return None
        near, when = self._times.get(writer_of(head), (-LOOK_BACK, None))
        return when if line - near < LOOK_BACK else None

    def _node(self, known: dict[str, str], head: prefix.Head) -> str | None:
        name = known.pop("node", None) or head.node or self.reading.node
        # It may end up in a command that somebody copies: only what can be a name.
        fit = prefix.HOST.fullmatch(name) if name else None
        return prefix.short(fit[0]) if fit else None

    def _keep(self, event: Event) -> None:
        """Keep an event, or count it with the last of its kind and writer."""
        who = (event.kind, event.rank, event.node, event.attempt)
        alike = self._kept.setdefault(who, [])
        if len(alike) >= KEPT:
            alike[-1].count += 1
            return
        alike.append(event)
        self.events.append(event)

    def finish(self) -> None:
        """End what is still open at the end of the log."""
        self._end_summary()
        self._open.clear()


def writer_of(head: prefix.Head) -> tuple[int | str | None, ...]:
    """Who wrote a line, as far as its prefixes say."""
    pid = head.pid if head.rank is None else None
    return (head.rank, head.label, head.local_rank, head.node, pid)


def _number(*values: str | int | None) -> int | None:
    """The first value that is known."""
    return next((int(value) for value in values if value is not None), None)
