"""Blocks of lines that belong together: Python tracebacks, torchelastic's summary."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

FRAME = re.compile(
    r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<func>.*))?'
)
#: The line that ends a traceback: a dotted name, alone or before a colon.
FINAL = re.compile(r"^[A-Za-z_][\w]*(?:\.\w+)*(?::(?: |$)|$)")
#: Frames of libraries: never where a user can mend something.
LIBRARY = re.compile(
    r"site-packages/|dist-packages/|/lib/python\d|<frozen |<string>|^/usr/lib"
    r"|/torch/(?:distributed|nn|utils|autograd|optim|_dynamo|_inductor)/"
)
SUMMARY = re.compile(
    r"^ *(?P<key>time|host|rank|exitcode|error_file|traceback) *: ?(?P<value>.*)"
)
MAX_LINES = 300  # of one traceback: a recursion shows a thousand frames
SUMMARY_LINES = 10


@dataclass
class Traceback:
    """An open traceback of one writer."""

    line: int
    left: int = MAX_LINES
    stamped: bool = False  # a time stands before each of its lines
    innermost: dict[str, str] = field(default_factory=dict)
    user: dict[str, str] = field(default_factory=dict)

    def take(self, text: str) -> bool:
        """Read one more line; True when the traceback goes on after it."""
        self.left -= 1
        found = FRAME.match(text)
        if found:
            frame = {k: v for k, v in found.groupdict().items() if v}
            self.innermost = frame
            if not LIBRARY.search(frame["file"]):
                self.user = frame
            return self.left > 0
        return self.left > 0 and not self.ends(text)

    def ends(self, text: str) -> bool:
        """Whether this is the line of the exception."""
        return FINAL.match(text) is not None

    def fields(self) -> dict[str, str]:
        """Where it happened: the innermost frame of the user's own code, if any."""
        return self.user or self.innermost


@dataclass
class Summary:
    """torchelastic's root cause, line by line."""

    line: int
    left: int = SUMMARY_LINES
    values: dict[str, str] = field(default_factory=dict)
    inner: Traceback | None = None  # the traceback that an error file brought
    raised: str = ""  # the exception at its end
    mine: bool = False  # the last line belonged to it

    def take(self, text: str) -> bool:
        """Read one more line; True when the block goes on after it."""
        self.left -= 1
        found = SUMMARY.match(text)
        self.mine = found is not None or self.inner is not None
        if self.inner is not None:
            return self._traced(self.inner, text.strip())
        if found:
            self.values[found["key"]] = found["value"].strip()
        if found and found["value"].startswith("Traceback (most recent"):
            self.inner, self.left = Traceback(self.line), MAX_LINES
            return True
        return self.left > 0 and "traceback" not in self.values

    def _traced(self, inner: Traceback, text: str) -> bool:
        if not FRAME.match(f" {text}") and inner.ends(text) and inner.innermost:
            self.raised = text
            return False
        return inner.take(f" {text}")

    def fields(self) -> dict[str, str]:
        """time, node, rank, exit, pid, signal of the first failure."""
        made = {}
        for name, key, pattern in (
            ("rank", "rank", r"(\d+)"),
            ("exit", "exitcode", r"(-?\d+)"),
            ("pid", "exitcode", r"pid: (\d+)"),
            ("node", "host", r"([\w.-]+)"),
            ("at", "time", r"(\S+)"),
            ("signal", "traceback", r"Signal \d+ \((SIG\w+)\)"),
            ("why", "traceback", r"(.*)"),
        ):
            found = re.search(pattern, self.values.get(key, ""))
            if found:
                made[name] = found[1]
        return made
