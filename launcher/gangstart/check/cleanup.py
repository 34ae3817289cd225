"""Ending what an ended job left: only what is proven to be its own, and recorded first.

A process is held by a pidfd before it is looked at again. If it is still the one that
was judged (same start, same proof) the signal goes through that pidfd, so a number that
was given to another process meanwhile cannot be hit. Nobody waits for a process that
hangs in the kernel.
"""

from __future__ import annotations

import os
import select
import signal
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from gangstart.check import proc, shm
from gangstart.check.leftover import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from gangstart.check.leftover import Job, Orphan
    from gangstart.check.scan import Seen

#: Proofs of leftover.py that say "of this very job"; "no job" is none.
PROOFS = ("cgroup", "environment", "user and time")
TERM_S = 5.0
KILL_S = 5.0


class Signals(Protocol):
    """How processes are held, signalled and waited for."""

    def open(self, pid: int) -> int | None:
        """Hold a process; None if it is gone."""

    def send(self, fd: int, number: int) -> None:
        """Signal a held process; one that ended meanwhile is no error."""

    def ended(self, fds: Collection[int], seconds: float) -> set[int]:
        """Those of the held processes that ended, at most so long later."""

    def close(self, fd: int) -> None:
        """Let go."""


class PidSignals:
    """Signals by pidfd."""

    def open(self, pid: int) -> int | None:
        """Hold a process; None if it is gone."""
        try:
            return os.pidfd_open(pid)
        except OSError:
            return None

    def send(self, fd: int, number: int) -> None:
        """Signal a held process; one that ended meanwhile is no error."""
        try:
            signal.pidfd_send_signal(fd, number)
        except (ProcessLookupError, PermissionError):
            # Whoever is still there afterwards is told of.
            return

    def ended(self, fds: Collection[int], seconds: float) -> set[int]:
        """Those of the held processes that ended, at most so long later."""
        found = set[int]()
        deadline = monotonic() + seconds
        while found < set(fds):
            poll = select.poll()
            for fd in set(fds) - found:
                poll.register(fd, select.POLLIN)
            left = max(deadline - monotonic(), 0.0)
            found |= {fd for fd, _ in poll.poll(left * 1000)}
            if left <= 0:
                break
        return found

    def close(self, fd: int) -> None:
        """Let go."""
        os.close(fd)


@dataclass(frozen=True)
class Outcome:
    """What became of one thing that was left over."""

    what: str  # "pid 4711", a path
    how: str  # ended, killed, gone, removed; or why it is still there
    done: bool


@dataclass(frozen=True)
class Order:
    """What may be ended: the job whose it was, who was judged, how to look again."""

    job: Job
    seen: Mapping[int, Seen]  # as they were judged
    again: Callable[[Sequence[int]], Mapping[int, tuple[Seen, Orphan | None]] | None]
    record: Callable[[Mapping[str, Any]], None]
    own: Collection[int] = ()
    cgroup: str = ""  # of the check itself: slurmd's
    term_s: float = TERM_S


def refusal(orphan: Orphan, order: Order) -> str:
    """Why a process may not be ended, "" if it may."""
    process = orphan.process
    # User and time alone would hit what cron or a login of the user has started too:
    # what a job leaves behind without a cgroup of its own is in slurmd's.
    by_time = orphan.proof == "user and time"
    login = any(name in proc.LOGIN for name in process.env or {})
    elsewhere = process.cgroup != order.cgroup or login
    reasons = (
        (process.pid in order.own or process.pid <= 1, "it is this check itself"),
        (order.job.uid is None, "the job's user is not known"),
        (process.uid in (ROOT, None), "it is root's"),
        (process.uid != order.job.uid, "it is another user's"),
        (orphan.job != order.job.job_id, "it is of another job"),
        (orphan.proof not in PROOFS, "it is of no job"),
        (by_time and elsewhere, "it may be a service's, or of a login"),
    )
    return next((why for true, why in reasons if true), "")


def settle(pids: Sequence[int], signals: Signals, seconds: float) -> bool:
    """Wait for processes that are about to end by themselves; whether any did."""
    held = {fd for pid in pids if (fd := signals.open(pid)) is not None}
    try:
        return bool(signals.ended(held, seconds)) or len(held) < len(pids)
    finally:
        for fd in held:
            signals.close(fd)


def end(orphans: Sequence[Orphan], order: Order, signals: Signals) -> list[Outcome]:
    """End processes: SIGTERM, some time, SIGKILL. Raises OSError if not recorded."""
    refused = {o.process.pid: refusal(o, order) for o in orphans}
    allowed = {o.process.pid: o for o in orphans if not refused[o.process.pid]}
    held = {pid: fd for pid in allowed if (fd := signals.open(pid)) is not None}
    try:
        became = end_held(allowed, held, order, signals)
    finally:
        for fd in held.values():
            signals.close(fd)
    became |= {pid: f"left alone: {why}" for pid, why in refused.items() if why}
    became |= {pid: "gone" for pid in allowed if pid not in held}
    done = ("gone", "ended", "killed")
    return [
        Outcome(f"pid {pid}", how, how in done) for pid, how in sorted(became.items())
    ]


def end_held(
    orphans: Mapping[int, Orphan],
    held: Mapping[int, int],
    order: Order,
    signals: Signals,
) -> dict[int, str]:
    """What became of each process that is held."""
    became: dict[int, str] = {}
    left = dict(held)
    for number, seconds, how in (
        (signal.SIGTERM, order.term_s, "ended"),
        (signal.SIGKILL, KILL_S, "killed"),
    ):
        if not left:
            break
        now = order.again(list(left))
        if now is None:
            became |= dict.fromkeys(left, "left alone: it could not be read again")
            return became
        for pid in list(left):
            why = changed(orphans[pid], order, now.get(pid))
            if why:
                became[pid] = why
                del left[pid]
        if not left:
            break
        order.record(recorded(number, [orphans[pid] for pid in sorted(left)]))
        for fd in left.values():
            signals.send(fd, number)
        stuck = {pid for pid in left if now[pid][0].state == proc.UNINTERRUPTIBLE}
        waited = {pid: fd for pid, fd in left.items() if pid not in stuck}
        gone = signals.ended(waited.values(), seconds)
        became |= {pid: how for pid, fd in waited.items() if fd in gone}
        became |= dict.fromkeys(stuck, "hangs in the kernel (D state)")
        left = {pid: fd for pid, fd in waited.items() if fd not in gone}
    return became | dict.fromkeys(left, "still there after SIGKILL")


def changed(
    orphan: Orphan, order: Order, now: tuple[Seen, Orphan | None] | None
) -> str:
    """Why a process must not be signalled after all, "" if nothing has changed."""
    if now is None:
        return "gone"
    seen, judged = now
    if seen.start_ticks != order.seen[orphan.process.pid].start_ticks:
        return "gone"  # its number is another process's by now
    if seen.process.zombie:
        return "gone"
    same = judged is not None and (judged.job, judged.proof) == (
        orphan.job,
        orphan.proof,
    )
    if not same or seen.process.uid != order.job.uid:
        return "left alone: it is not proven to be the job's any more"
    return ""


def recorded(number: signal.Signals, orphans: Sequence[Orphan]) -> dict[str, Any]:
    """The event that is kept before a signal is sent."""
    return {
        "action": number.name,
        "processes": [
            {"pid": o.process.pid, "uid": o.process.uid, "proof": o.proof}
            for o in orphans
        ],
    }


def remove_shm(
    files: Sequence[shm.File],
    folder: Path,
    order: Order,
) -> list[Outcome]:
    """Remove the job's shared memory. Raises OSError if that cannot be recorded."""
    if not files:
        return []
    uid = order.job.uid
    if uid is None or uid == ROOT:
        why = "left alone: the job's user is not known, or root"
        return [Outcome(str(folder / f.name), why, done=False) for f in files]
    order.record({"action": "unlink", "files": [f.name for f in files]})
    found: list[Outcome] = []
    for file in files:
        why = shm.remove(folder, file, uid)
        how = f"left alone: {why}" if why else "removed"
        found.append(Outcome(str(folder / file.name), how, not why))
    return found
