"""barrier(): all ranks of the step meet, at any time of the program.

Every rank is linked to rank 0 by TCP from its first call on, each frame sealed with the
step's key (run/link.py, stepkey.py): no MPI, and nothing for anybody without the key.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import select
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gangstart.errors import GangstartError
from gangstart.step import current

if TYPE_CHECKING:
    from gangstart.hub import Hub
    from gangstart.run.link import Link
    from gangstart.step import Step
    from gangstart.stepkey import StepKey

TIMEOUT_MAX_S = 604_800.0  # a week
NAME_MAX = 64
CONNECT_S = 1.0
WELCOME_S = 2.0
AGAIN_S = (0.02, 0.5)  # between two rounds of tries: first, longest
SPARE_FILES = 512
VERDICT_S = 5.0  # rank 0 answers a withdrawal within this, or it is not there
NOTICE = 0  # an outcome of no barrier: a rank has ended (gather.py)


@dataclass(frozen=True)
class Missing:
    """A rank that a barrier failed for; node None: not known."""

    rank: int
    node: str | None


@dataclass(frozen=True)
class Passed:
    """A barrier that everybody came to. Times in seconds."""

    number: int  # of the calls in this process, from 1
    waited_s: float  # in this call
    skew_s: float  # from the first arrival to the last, by rank 0's clock
    last_rank: int
    last_node: str


class BarrierError(GangstartError):
    """A barrier that failed, the same for all ranks that were in it.

    ``missing``: the ranks that it failed for; ``missing_count`` is higher than
    ``len(missing)`` only when they are more than 80 separate ranges.
    """

    def __init__(
        self, message: str, missing: tuple[Missing, ...] = (), count: int = 0
    ) -> None:
        """Keep the sentence and who is to blame."""
        super().__init__(message)
        self.missing = missing
        self.missing_count = count or len(missing)


class BarrierTimeoutError(BarrierError):
    """Not everybody came in time; ``missing`` did not."""


class BarrierLostError(BarrierError):
    """A rank has ended (or its node, or the network to it): ``missing`` is gone."""


class BarrierMismatchError(BarrierError):
    """The ranks are in calls of different names; ``missing`` is in the rarer one."""


KINDS = {
    "timeout": BarrierTimeoutError,
    "gone": BarrierLostError,
    "mismatch": BarrierMismatchError,
}


class Caller:
    """This process's part in the barriers of its step."""

    def __init__(self) -> None:
        """Nobody has called yet."""
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.number = 0
        self.link: Link | None = None
        self.hub: Hub | None = None
        self.lost = False  # linked once, and no more
        self.gone: dict[str, Any] | None = None  # the outcome that named who ended

    def forget(self) -> None:
        """In a forked child: it is no rank; leave the parent's connections alone."""
        if self.link is not None:
            os.close(self.link.peer.detach())
        if self.hub is not None:
            self.hub.forget()
        self.link = self.hub = None
        self.lock = threading.Lock()


_caller = Caller()
os.register_at_fork(after_in_child=_caller.forget)


def barrier(timeout: float = 300.0, *, name: str = "") -> Passed:
    """Wait until all ranks of the step have called it as often as this one has.

    timeout: seconds, above 0 and up to a week. name: ranks that meet under different
    names fail at once (up to 64 ASCII characters). Any thread may call it, and calls of
    a rank take turns; a forked child may not. A world of one returns at once.

    Raises BarrierTimeoutError, BarrierLostError or BarrierMismatchError, all of them
    BarrierError with the missing ranks; GangstartError for bad arguments, and where
    the step has no key (it was started by neither --gang-start nor gangstart run).
    After a failure the next call is a new barrier that all can meet in, unless a rank
    has ended.
    """
    until = time.monotonic() + checked(timeout, name)
    if os.getpid() != _caller.pid:
        raise GangstartError(
            "barrier: this process was forked from a rank and is none itself; call "
            "barrier() in the rank's own process"
        )
    step = current()
    if not _caller.lock.acquire(timeout=max(0.0, until - time.monotonic())):
        raise BarrierTimeoutError(
            f"barrier: another thread of rank {step.rank} was in a barrier for all of "
            f"{timeout:g} s",
            (Missing(step.rank, step.node),),
        )
    try:
        _caller.number += 1
        if step.world_size == 1:
            return Passed(_caller.number, 0.0, 0.0, step.rank, step.node)
        return meet(step, name, until, timeout)
    finally:
        _caller.lock.release()


def checked(timeout: object, name: object) -> float:
    """The timeout in seconds; raises GangstartError for what cannot be."""
    seconds = -1.0
    if isinstance(timeout, (int, float)) and type(timeout) is not bool:
        seconds = float(timeout) if 0 < timeout <= TIMEOUT_MAX_S else -1.0
    if seconds <= 0:
        raise GangstartError(
            f"barrier: timeout={timeout!r:.80}: seconds above 0 and up to 604800 "
            "are allowed"
        )
    if not isinstance(name, str) or len(name) > NAME_MAX or not fits(name):
        raise GangstartError(
            f"barrier: name={name!r:.80}: up to {NAME_MAX} printable ASCII characters "
            "are allowed"
        )
    return seconds


def fits(name: str) -> bool:
    """Whether a text can stand in a message as it is."""
    return name.isascii() and name.isprintable()


def meet(step: Step, name: str, until: float, timeout: float) -> Passed:
    """One barrier of a world of several; the lock is held."""
    began = time.monotonic()
    if _caller.link is not None:
        heard(step, _caller.number)  # what rank 0 has said since
    if _caller.gone is not None:  # whoever ends after that is not to blame
        return concluded(step, _caller.gone, 0.0)
    if _caller.link is None:
        _caller.link = linked(step, until, timeout)
    number = _caller.number
    said = {"rank": step.rank, "node": step.node, "world": step.world_size}
    try:
        send(step, {"k": "come", "number": number, "name": name, **said})
        outcome = wait(step, number, until)
        if outcome is None:
            send(step, withdrawal(number, f"{timeout:g} s are over"))
            outcome = wait(step, number, time.monotonic() + VERDICT_S)
    except BaseException:  # a signal's handler has raised, KeyboardInterrupt for one
        if _caller.link is not None:
            with contextlib.suppress(GangstartError):  # rank 0 is gone: it knows
                send(step, withdrawal(number, "it was interrupted"))
        raise
    if outcome is None:
        raise lost_root(step, f"it does not answer, {timeout:g} s and more")
    return concluded(step, outcome, time.monotonic() - began)


def withdrawal(number: int, why: str) -> dict[str, Any]:
    """Tell rank 0 that this rank waits no longer."""
    return {"k": "withdraw", "number": number, "why": why}


def send(step: Step, message: dict[str, Any]) -> None:
    """Send to rank 0, or find that it is gone."""
    from gangstart.run.link import LinkBrokenError  # noqa: PLC0415 - has the C core

    if _caller.link is None:
        raise lost_root(step, "the connection to it was lost")
    try:
        _caller.link.send(message)
    except LinkBrokenError as error:
        if heard(step, _caller.number) is not None:
            return  # who ended first is known: the next wait says so
        raise drop(step, str(error)) from None


def wait(step: Step, number: int, until: float) -> dict[str, Any] | None:
    """The outcome of this barrier; None when time is over."""
    while (link := _caller.link) is not None:
        found = heard(step, number)
        left = until - time.monotonic()
        if found is not None or left <= 0:
            return found
        readable(link.peer, left)
    return None


def heard(step: Step, number: int) -> dict[str, Any] | None:
    """What rank 0 has said by now of this barrier, or of all from now on."""
    from gangstart.run.link import LinkBrokenError  # noqa: PLC0415 - has the C core

    found = None
    try:
        for message in _caller.link.receive() if _caller.link else ():
            if message["k"] == "outcome" and message["number"] == NOTICE:
                _caller.gone = _caller.gone or message
            elif message["k"] == "outcome" and message["number"] == number:
                found = message
    except LinkBrokenError as error:
        if _caller.gone is None:
            raise drop(step, str(error)) from None
    return found or _caller.gone


def readable(peer: socket.socket, seconds: float) -> bool:
    """Wait for something to read; a program may have too many files for select()."""
    ready = select.poll()
    ready.register(peer, select.POLLIN)
    return bool(ready.poll(seconds * 1000 + 1))


def drop(step: Step, why: str) -> BarrierLostError:
    """Rank 0 hung up: no barrier of this step can be any more."""
    if _caller.link is not None:
        _caller.link.close()
    _caller.link, _caller.lost = None, True
    return lost_root(step, f"it has ended, or the network to it is gone ({why})")


def lost_root(step: Step, why: str) -> BarrierLostError:
    """Say that rank 0 is not there; it alone knows of the others."""
    node = step.peers.get(0)
    where = f" on {node}" if node else ""
    return BarrierLostError(
        f"barrier {_caller.number}: rank 0{where}: {why}", (Missing(0, node),)
    )


def concluded(step: Step, outcome: dict[str, Any], waited_s: float) -> Passed:
    """What rank 0 decided, as a value or an error."""
    number, kind = _caller.number, str(outcome["kind"])
    if kind == "passed":
        return Passed(
            number,
            waited_s,
            float(outcome["skew_s"]),
            int(outcome["last_rank"]),
            str(outcome["last_node"]),
        )
    if kind == "gone":
        _caller.gone = _caller.gone or outcome
    nodes = {int(rank): str(node) for rank, node in outcome.get("nodes", {}).items()}
    known = {**step.peers, **nodes} if outcome.get("ranks") else {}
    missing = tuple(
        Missing(rank, known.get(rank))
        for first, last in outcome.get("ranks", ())
        for rank in range(first, min(last + 1, step.world_size))
    )
    made = KINDS.get(kind, BarrierError)
    text = f"barrier {number}: {outcome['text']}"
    raise made(text, missing, int(outcome.get("count", 0)))


# -- the connection to rank 0 ---------------------------------------------------------


def linked(step: Step, until: float, timeout: float) -> Link:
    """Connect to rank 0, which may not have called yet; on rank 0, to its own hub."""
    from gangstart.stepkey import read_key  # noqa: PLC0415 - not for a world of one

    if _caller.lost:
        raise lost_root(step, "the connection to it was lost in an earlier barrier")
    if step.started == "run" and step.spool is None:
        raise GangstartError(
            f"barrier: rank {step.rank} on {step.node} has no key: gangstart run could "
            "not make its folder below XDG_RUNTIME_DIR or TMPDIR there; make room in "
            "it, or make it a folder that this user may write, and start again"
        )
    if step.spool is None or step.meet_addr is None:
        raise GangstartError(
            f"barrier: the ranks of this step (started by: {step.started}) share no "
            "key; start it with srun --gang-start or gangstart run, with env=torch"
        )
    key = read_key(step.spool)
    if step.rank == 0 and _caller.hub is None:
        _caller.hub = opened(step, step.meet_addr, key)
    pause = AGAIN_S[0]
    while True:
        link = tried(step.meet_addr, key, until)
        if link is not None:
            return link
        if time.monotonic() + pause > until:
            node = step.peers.get(0)
            raise BarrierTimeoutError(
                f"barrier {_caller.number}: rank 0{f' on {node}' if node else ''} did "
                f"not come within {timeout:g} s (nobody with the step's key answers at "
                f"{step.meet_addr}); who else did not is known to rank 0 alone",
                (Missing(0, node),),
            )
        time.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - not all at once
        pause = min(pause * 1.5, AGAIN_S[1])


def opened(step: Step, address: str, key: StepKey) -> Hub:
    """Rank 0's thread; raises GangstartError when it cannot listen."""
    from gangstart.hub import Hub, listen  # noqa: PLC0415 - rank 0 alone

    allow_descriptors(step.world_size)
    try:
        listening = listen(address, key)
    except OSError as error:
        raise GangstartError(
            f"barrier: rank 0 on {step.node} cannot listen: {error.strerror or error}"
        ) from None
    return Hub(listening, key, step.peers, step.world_size)


def allow_descriptors(world: int) -> None:
    """Let rank 0 have a connection for every rank; raises GangstartError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = soft if soft == resource.RLIM_INFINITY else max(soft, world + SPARE_FILES)
    if wanted > hard != resource.RLIM_INFINITY:
        raise GangstartError(
            f"barrier: rank 0 may open {hard} files, and a world of {world} needs "
            f"{wanted}: raise the hard limit (ulimit -Hn)"
        )
    if wanted != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def tried(address: str, key: StepKey, until: float) -> Link | None:
    """One round over the ports; None when nobody with the key is there."""
    from gangstart.hub import ports  # noqa: PLC0415 - has the C core

    for port in ports(key):
        left = until - time.monotonic()
        if left <= 0:
            return None
        try:
            peer = socket.create_connection((address, port), min(left, CONNECT_S))
        except OSError:
            continue
        link = greeted(peer, key, min(until, time.monotonic() + WELCOME_S))
        if link is not None:
            return link
    return None


def greeted(peer: socket.socket, key: StepKey, until: float) -> Link | None:
    """The link once the other side has shown that it has the key, too."""
    from gangstart.run.link import Link, LinkBrokenError  # noqa: PLC0415 - the C core

    try:
        link = Link(peer, key.key, hub=False)
        link.send({"k": "hello"})
        while (left := until - time.monotonic()) > 0:
            if readable(peer, left) and link.receive():
                return link
    except (LinkBrokenError, OSError):
        pass  # a stranger, or rank 0 with no time for us: the next round will tell
    peer.close()
    return None
