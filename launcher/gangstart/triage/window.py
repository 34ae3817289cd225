"""A few lines of a log around a number, a time or its end, as data for whoever reads.

Lines are counted as evidence cites them (`gather`): by line feeds, in the unpacked log.
What could steer a terminal or hide in a text is spelt out.
"""

from __future__ import annotations

import time
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gangstart.check.result import UNFIT
from gangstart.errors import GangstartError
from gangstart.triage import clock, prefix
from gangstart.triage.reader import blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LINE_CHARS = 1000
RAW_BYTES = 4 * LINE_CHARS  # of a line that are looked at
#: Without a time in so many lines above its end a block is searched line by line.
LAST_LINES = 40


class EndedError(Exception):
    """Whoever asked no longer waits."""


@dataclass(frozen=True)
class Around:
    """Which lines: those about a number or a time, else the last ones."""

    before: int
    after: int
    line: int | None = None
    time: float | None = None


@dataclass
class Line:
    """One line: the first bytes of it, and how long it is."""

    number: int
    raw: bytearray = field(default_factory=bytearray)
    size: int = 0

    def add(self, piece: bytes) -> None:
        """Take a piece of it."""
        self.raw += piece[: max(RAW_BYTES - len(self.raw), 0)]
        self.size += len(piece)


class Shown(NamedTuple):
    """Text that is safe to show, and whether it is all."""

    text: str
    cut: bool


@dataclass
class Window:
    """What was found. `line` is the one that was asked for, None in an empty log."""

    line: int | None
    lines: list[Line]
    more_after: bool
    note: str = ""


@dataclass
class Log:
    """A log that is read up to a moment of the monotonic clock, again and again."""

    path: Path
    name: str  # to show
    end: float
    near: float | None = None  # about when it was written, for times without a year
    ended: Callable[[], bool] = lambda: False

    def window(self, around: Around) -> Window:
        """Find the lines and read them.

        Raises:
            GangstartError: the log cannot be read, has no such line or no times at
                all, or there was not the time to look.
            EndedError: `ended` says so.

        """
        if around.time is not None:
            found, note = self._at(around.time)
        elif around.line is not None:
            found, note = around.line, ""
        else:
            found, note = self._count(), ""
        if not found:
            return Window(None, [], more_after=False, note="the log is empty")
        first, last = max(found - around.before, 1), found + around.after
        lines: list[Line] = []
        for one in self._lines(first):
            if one.number > last:
                break
            lines.append(one)
        else:
            return self._to_the_end(found, lines, note)
        return Window(found, lines, more_after=True, note=note)

    def _to_the_end(self, found: int, lines: list[Line], note: str) -> Window:
        if not lines or lines[-1].number < found:
            total = lines[-1].number if lines else self._count()
            raise GangstartError(f"{self.name} has {total} lines, not {found}")
        return Window(found, lines, more_after=False, note=note)

    def _blocks(self) -> Iterator[bytes]:
        """Blocks, as long as there is time and somebody waits."""
        for block in blocks(self.path):
            if self.ended():
                raise EndedError
            if time.monotonic() > self.end:
                raise GangstartError(
                    f"{self.name}: its first {block.offset >> 20} MiB were read, then "
                    "the time was up (deadline_s)"
                )
            yield block.data

    def _count(self) -> int:
        """How many lines there are; one without a line feed at the end counts."""
        total, last = 0, b"\n"
        for data in self._blocks():
            total += data.count(b"\n")
            last = data[-1:]
        return total + (last != b"\n")

    def _lines(self, first: int) -> Iterator[Line]:
        """Lines from a number on. A line may come in several blocks."""
        line = Line(1)
        for data in self._blocks():
            count = data.count(b"\n")
            if line.number + count < first:
                line = Line(line.number + count)
                continue
            head, *rest = data.split(b"\n")
            line.add(head)
            for piece in rest:
                if line.number >= first:
                    yield line
                line = Line(line.number + 1)
                line.add(piece)
        if line.size and line.number >= first:
            yield line

    def _at(self, moment: float) -> tuple[int, str]:
        """The first line with a time that is not before a moment, and a remark."""
        number, dated, before = 1, 0, 0.0
        for data in self._blocks():
            told = self._last_time(data)
            count = data.count(b"\n")
            if told is not None and told < moment:
                number, dated, before = number + count, max(number + count - 1, 1), told
                continue
            for index, raw in enumerate(data.split(b"\n")):
                when = self._time(raw) if raw else None
                if when is not None and when >= moment:
                    return number + index, ""
                if when is not None:
                    dated, before = number + index, when
            number += count
        if not dated:
            raise GangstartError(
                f"no line of {self.name} begins with a time that is known (ISO 8601, "
                "glog's or syslog's): ask by line"
            )
        return dated, f"its last time is {before:.3f}, before the one that was asked"

    def _last_time(self, data: bytes) -> float | None:
        """The time of the last line that has one, of the last few."""
        tail = data[-LAST_LINES * RAW_BYTES :].split(b"\n")[-LAST_LINES:]
        times = (self._time(raw) for raw in reversed(tail) if raw)
        return next((when for when in times if when is not None), None)

    def _time(self, raw: bytes) -> float | None:
        return time_of(raw, self.near)


def time_of(raw: bytes, near: float | None) -> float | None:
    """When a line says that it was written."""
    return clock.line_time(prefix.clean(raw[:RAW_BYTES], 400), near)


def shown(line: Line) -> Shown:
    """The line as text: what is not to be seen or would steer a terminal is escaped."""
    raw = bytes(line.raw).rstrip(b"\r")
    text = raw.decode("utf-8", "backslashreplace")
    if not text.isprintable():
        text = "".join(map(visible, text))
    cut = line.size > len(line.raw) or len(text) > LINE_CHARS
    return Shown(text[:LINE_CHARS], cut)


def visible(char: str) -> str:
    """A character, or how it is written in a Python string."""
    if char == "\t" or unicodedata.category(char) not in UNFIT:
        return char
    return char.encode("unicode_escape").decode()
