"""The user's program as a child: signals forwarded, status passed on, nobody left over.

Its standard streams are this process's own. It has a process group of its own, so
that all of it can be ended; on a terminal it stays in ours, which the terminal signals.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time

from gangstart.errors import GangstartError
from gangstart.run.control import say
from gangstart.run.guard import Watcher, close_others, die_with_parent, kill_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangstart.run.control import Control

FORWARDED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT,
    signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH,
)  # fmt: skip
ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)  # by Python, not by the program
SLICE_S = 0.25  # how often the launcher is looked for
KNOWN_S = 2.0  # rank 0 gets this long to take note of a failure
SETTLE_S = 0.3  # who was told to end hears this long whether somebody failed before


def exit_code(status: int) -> int:
    """A shell's exit code of a child's status: 128 + signal."""
    return 128 - status if status < 0 else status


def describe(status: int) -> str:
    """How a program ended, for people."""
    if status < 0:
        return f"signal {-status} ({signal.strsignal(-status)})"
    return f"exit code {status}"


class Child:
    """A program that runs: a process, with its group if it leads one."""

    def __init__(self, pid: int, watcher: Watcher | None) -> None:
        """Take over a child of this process; with a watcher it leads a group."""
        self.pid, self._watcher = pid, watcher
        self.own_group = watcher is not None
        self._status: int | None = None

    def status(self) -> int | None:
        """Its status once it has ended, negative = signal; None while it runs."""
        if self._status is None:
            pid, raw = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(raw) if pid else None
        return self._status

    def send(self, number: int) -> None:
        """Signal all of it."""
        if self.own_group:
            kill_group(self.pid, number)
        elif self.status() is None:
            os.kill(self.pid, number)

    def finish(self) -> None:
        """End what its processes left behind."""
        if self._watcher is not None:
            kill_group(self.pid, signal.SIGKILL)
            self._watcher.dismiss()
            self._watcher = None


def spawn(argv: Sequence[str], env: Mapping[str, str]) -> Child:
    """Start a command; raises GangstartError (126, 127) when it cannot be executed.

    The signals that are forwarded wait from here on until a Runner can forward them.
    """
    if not argv[0]:
        raise GangstartError(
            "run: what to run is empty: write gangstart run [SPEC] -- COMMAND …",
            exit_code=127,
        )
    watcher = None if os.isatty(0) else Watcher()
    parent = os.getpid()
    heard, tell = os.pipe2(os.O_CLOEXEC)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    pid = os.fork()
    if pid == 0:
        try:
            if watcher is not None:
                watcher.lead()
            die_with_parent(parent)
            _become(argv, env, mask, tell)
        finally:
            os._exit(127)
    os.close(tell)
    with open(heard, "rb") as line:
        refused = line.read()
    if not refused:
        return Child(pid, watcher)
    os.waitpid(pid, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if watcher is not None:
        watcher.dismiss()
    number = int(refused)
    raise GangstartError(
        f"run: cannot execute {argv[0]}: {os.strerror(number)}",
        exit_code=127 if number == errno.ENOENT else 126,
    )


def _become(
    argv: Sequence[str],
    env: Mapping[str, str],
    mask: set[int | signal.Signals],
    tell: int,
) -> None:
    """Be the program, in a fork of this process; ``tell`` hears the errno if not.

    subprocess does the same for a caller that can wait for its import.
    """
    for number in FORWARDED:
        if callable(signal.getsignal(number)):  # what the user ignores stays ignored
            signal.signal(number, signal.SIG_DFL)
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    close_others(tell)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606 - no shell is right
    except OSError as error:
        os.write(tell, str(error.errno).encode())


class Runner:
    """Waits for the program, the launcher, signals and the other ranks."""

    def __init__(
        self, child: Child, control: Control, grace: float, *, rank: int, parent: int
    ) -> None:
        """grace: seconds from SIGTERM to SIGKILL; parent: pid of the launcher."""
        self.child, self.control, self.grace = child, control, grace
        self._rank, self._parent, self._said = rank, parent, False
        self._asked: int | None = None  # the signal that told us to end
        self._kill_at: float | None = None
        self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> int:
        """Return the exit code to end with."""
        signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        for number in FORWARDED:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup, for one
                signal.signal(number, _noted)
        signal.signal(signal.SIGCHLD, _noted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        try:
            status = self._wait_for_child()
            return self._leave(status)
        finally:
            self.child.finish()
            self.control.close()

    def _wait(self, seconds: float) -> list[int]:
        """Wait for anything; the signals that came."""
        waiting = select.poll()  # select() refuses descriptors from 1024 on
        for fd in (self._pipe[0], *(s.fileno() for s in self.control.sockets())):
            waiting.register(fd, select.POLLIN)
        with contextlib.suppress(InterruptedError):  # a signal: it is in the pipe
            waiting.poll(seconds * 1000)
        try:
            return list(os.read(self._pipe[0], 4096))
        except BlockingIOError:
            return []

    def _wait_for_child(self) -> int:
        while (status := self.child.status()) is None:
            for number in self._wait(self._patience()):
                self._signalled(number)
            self.control.poll()
            if self.control.first is not None or self._is_launcher_gone():
                self._announce()
                self._end_it(signal.SIGTERM)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self.child.send(signal.SIGKILL)
                self._kill_at = time.monotonic() + self.grace
        return status

    def _patience(self) -> float:
        if self._kill_at is None:
            return SLICE_S
        return max(0.0, min(SLICE_S, self._kill_at - time.monotonic()))

    def _signalled(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return
        typed = {signal.SIGINT, signal.SIGQUIT}
        if not self.child.own_group and number in typed:
            self._asked = number
            return  # the terminal has sent it to the program as well
        if number in ENDING:
            self._asked = number
            self._end_it(number)
        else:
            self.child.send(number)

    def _end_it(self, number: int) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self.grace
            self.child.send(number)
        elif number != signal.SIGTERM:
            self.child.send(number)

    def _announce(self) -> None:
        """Rank 0 names the first one; rank 1 does so when that is rank 0's process.

        Silent where somebody ended everything: then nobody has failed.
        """
        first = self.control.first
        if first is None or self._said or self._asked is not None:
            return
        speaker = 0 if first.node else 1
        if self._rank == speaker:
            ending = f"the others are ended within {self.grace:g} s"
            say(f"gang-start: {first.sentence()}; {ending}\n")
        self._said = True

    def _is_launcher_gone(self) -> bool:
        return os.getppid() != self._parent

    # -- after its end --------------------------------------------------------------

    def _leave(self, status: int) -> int:
        """Tell the others, hear who was first, and choose the exit code."""
        if self._asked is not None:
            self._hear(SETTLE_S)
        told = self.control.first
        if told is None:
            self.control.ended(exit_code(status), describe(status))
        else:
            self.control.ended(0, "")
        failed = status != 0 or told is not None
        self._hear(KNOWN_S + (self.grace if failed else 0), forever=not failed)
        self._announce()
        first = self.control.first
        return first.status if first is not None else exit_code(status)

    def _hear(self, seconds: float, *, forever: bool = False) -> None:
        """Listen to the others until this rank may end or time is over."""
        until = time.monotonic() + seconds
        self.control.poll()
        while not self.control.over() and (forever or time.monotonic() < until):
            came = self._wait(min(SLICE_S, max(until - time.monotonic(), 0.01)))
            if self._is_launcher_gone() or ENDING & set(came):
                until, forever = min(until, time.monotonic() + SETTLE_S), False
            self.control.poll()
            if self.control.first is not None and forever:
                until, forever = time.monotonic() + KNOWN_S + self.grace, False


def _noted(_number: int, _frame: object) -> None:
    """Only so that the number goes to the wakeup pipe."""
