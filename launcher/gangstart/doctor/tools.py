"""Running other programs, each with a deadline; a test has its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GRACE_S = 3.0
#: The second line of a command that was called wrongly: the one before says how.
HINT = re.compile(r"Try ['\"].*['\"] for more information")


class Answer(NamedTuple):
    """What a program said; code None: it was not there, or not done in time."""

    code: int | None
    out: str = ""
    err: str = ""

    @property
    def problem(self) -> str:
        """Return why it failed in one line, "" if it did not."""
        if self.code == 0:
            return ""
        rows = (line.strip() for line in self.err.splitlines())
        lines = [line for line in rows if line and not HINT.match(line)]
        return lines[-1] if lines else f"it ended with code {self.code}"


class Tools(Protocol):
    """What runs programs."""

    def run(
        self, argv: Sequence[str], seconds: float, env: Mapping[str, str]
    ) -> Answer:
        """Run a program to its end or for so many seconds."""


class Commands:
    """The real ones."""

    def run(
        self, argv: Sequence[str], seconds: float, env: Mapping[str, str]
    ) -> Answer:
        """Run a program; past its time it and what it started are ended."""
        try:
            popen = subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            return Answer(None, err=f"{argv[0]}: {error.strerror}")
        try:
            out, err = popen.communicate(timeout=max(seconds, 0.1))
        except subprocess.TimeoutExpired:
            out, err = end(popen)
            return Answer(None, out, f"{err}\nno answer within {seconds:.0f} s")
        except BaseException:  # Ctrl-C for one: nothing may run on
            end(popen)
            raise
        return Answer(popen.returncode, out, err)


class Until(NamedTuple):
    """The same, but none of them later than the whole may take."""

    tools: Tools
    until: float  # time.monotonic()

    def run(
        self, argv: Sequence[str], seconds: float, env: Mapping[str, str]
    ) -> Answer:
        """Run a program for so many seconds or as many as are left, at least 1."""
        left = max(self.until - time.monotonic(), 1.0)
        return self.tools.run(argv, min(seconds, left), env)


def end(popen: subprocess.Popen[str]) -> tuple[str, str]:
    """End a program, at first kindly (srun then ends its step); what it had said."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.killpg(popen.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):  # then less kindly
            return popen.communicate(timeout=GRACE_S)
    return "", ""
