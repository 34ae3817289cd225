"""Ending leftovers: the right process or none, and never without a record."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from check.fakenode import OURS
from gangstart.check import cleanup
from gangstart.check.leftover import Job, Orphan, Process
from gangstart.check.scan import Seen

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

JOB = Job(501, uid=1001)
TERM, KILL = int(signal.SIGTERM), int(signal.SIGKILL)


def orphan(
    pid: int = 7, uid: int = 1001, proof: str = "cgroup", job: int = 501
) -> Orphan:
    return Orphan(Process(pid, uid, OURS), job, proof)


@dataclass
class FakeSignals:
    """Processes that end by the signals that are given; fd = pid + 1000."""

    ends_by: Mapping[int, Collection[int]]
    log: list[object]
    gone: set[int] = field(default_factory=set)

    def open(self, pid: int) -> int | None:
        self.log.append(("hold", pid))
        return None if pid in self.gone else pid + 1000

    def send(self, fd: int, number: int) -> None:
        self.log.append((signal.Signals(number).name, fd - 1000))
        if number in self.ends_by.get(fd - 1000, ()):
            self.gone.add(fd - 1000)

    def ended(self, fds: Collection[int], seconds: float) -> set[int]:
        assert seconds >= 0
        return {fd for fd in fds if fd - 1000 in self.gone}

    def close(self, fd: int) -> None:
        self.log.append(("let go", fd - 1000))


class Scene:
    """Some orphans, how they look at a second glance, and a log of what is done."""

    def __init__(self, *orphans: Orphan, ends_by: Collection[int] = (TERM,)) -> None:
        self.orphans = orphans
        self.log: list[object] = []
        self.signals = FakeSignals({o.process.pid: ends_by for o in orphans}, self.log)
        self.seen = {o.process.pid: Seen(o.process, "S", 100) for o in orphans}
        self.now: dict[int, tuple[Seen, Orphan | None]] = {
            o.process.pid: (self.seen[o.process.pid], o) for o in orphans
        }
        self.job = JOB
        self.own: Collection[int] = ()
        self.cgroup = "0::/slurmd"
        self.blind = self.full = False

    def again(
        self, pids: Sequence[int]
    ) -> Mapping[int, tuple[Seen, Orphan | None]] | None:
        self.log.append("look again")
        return None if self.blind else {p: self.now[p] for p in pids if p in self.now}

    def record(self, event: Mapping[str, Any]) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.log.append(("record", event["action"]))

    def end(self) -> dict[str, str]:
        order = cleanup.Order(
            self.job, self.seen, self.again, self.record, self.own, self.cgroup
        )
        became = cleanup.end(self.orphans, order, self.signals)
        return {one.what: one.how for one in became}

    def signalled(self) -> list[object]:
        return [
            x for x in self.log if isinstance(x, tuple) and str(x[0]).startswith("SIG")
        ]


def test_it_is_held_looked_at_again_recorded_and_then_signalled() -> None:
    scene = Scene(orphan())
    assert scene.end() == {"pid 7": "ended"}
    assert scene.log == [
        ("hold", 7),
        "look again",
        ("record", "SIGTERM"),
        ("SIGTERM", 7),
        ("let go", 7),
    ]


def test_who_does_not_end_is_killed_after_another_look() -> None:
    scene = Scene(orphan(), ends_by=[KILL])
    assert scene.end() == {"pid 7": "killed"}
    assert scene.log[2:7] == [
        ("record", "SIGTERM"),
        ("SIGTERM", 7),
        "look again",
        ("record", "SIGKILL"),
        ("SIGKILL", 7),
    ]


def test_who_survives_even_that_is_told_of() -> None:
    assert Scene(orphan(), ends_by=()).end() == {"pid 7": "still there after SIGKILL"}


def test_a_number_that_another_process_got_meanwhile_is_not_hit() -> None:
    scene = Scene(orphan())
    scene.now[7] = (replace(scene.seen[7], start_ticks=101), orphan())
    assert scene.end() == {"pid 7": "gone"}
    assert scene.signalled() == []


def test_a_number_that_another_process_got_between_the_signals_is_not_hit() -> None:
    scene = Scene(orphan(), ends_by=())
    later = (replace(scene.seen[7], start_ticks=101), orphan())
    looks: list[int] = []

    def again(pids: Sequence[int]) -> Mapping[int, tuple[Seen, Orphan | None]]:
        looks.extend(pids)
        return {7: later} if len(looks) > 1 else {7: scene.now[7]}

    scene.again = again  # type: ignore[method-assign]
    assert scene.end() == {"pid 7": "gone"}
    assert scene.signalled() == [("SIGTERM", 7)]


@pytest.mark.parametrize("second", [None, orphan(proof="environment"), orphan(job=502)])
def test_a_proof_that_does_not_hold_any_more_is_none(second: Orphan | None) -> None:
    scene = Scene(orphan())
    scene.now[7] = (scene.seen[7], second)
    assert "not proven" in scene.end()["pid 7"]
    assert scene.signalled() == []


@pytest.mark.parametrize(
    ("judged", "why"),
    [
        (orphan(uid=1002), "it is another user's"),
        (orphan(uid=0), "it is root's"),
        (orphan(job=502), "it is of another job"),
        (orphan(proof="no job"), "it is of no job"),
        (orphan(pid=1), "it is this check itself"),
        (orphan(proof="user and time"), "it may be a service's, or of a login"),
    ],
)
def test_what_may_not_be_ended_is_left_alone(judged: Orphan, why: str) -> None:
    scene = Scene(judged)
    assert scene.end() == {f"pid {judged.process.pid}": f"left alone: {why}"}
    assert scene.signalled() == []


def test_without_the_jobs_user_nothing_is_ended() -> None:
    scene = Scene(orphan())
    scene.job = Job(501)
    assert scene.end() == {"pid 7": "left alone: the job's user is not known"}


def test_the_check_does_not_end_itself() -> None:
    scene = Scene(orphan())
    scene.own = {7}
    assert scene.end() == {"pid 7": "left alone: it is this check itself"}


def test_who_hangs_in_the_kernel_is_told_of_and_not_waited_for() -> None:
    scene = Scene(orphan(7), orphan(8), ends_by=())
    scene.now[7] = (replace(scene.seen[7], state="D"), orphan(7))
    scene.signals.ends_by = {8: [TERM]}
    waited: list[Collection[int]] = []
    plain = scene.signals.ended

    def ended(fds: Collection[int], seconds: float) -> set[int]:
        waited.append(sorted(fds))
        return plain(fds, seconds)

    scene.signals.ended = ended  # type: ignore[method-assign]
    assert scene.end() == {"pid 7": "hangs in the kernel (D state)", "pid 8": "ended"}
    assert waited == [[1008]]


def test_without_a_record_nothing_is_ended() -> None:
    scene = Scene(orphan())
    scene.full = True
    with pytest.raises(OSError, match="No space"):
        scene.end()
    assert scene.signalled() == []
    assert ("let go", 7) in scene.log


def test_without_a_second_look_nothing_is_ended() -> None:
    scene = Scene(orphan())
    scene.blind = True
    assert scene.end() == {"pid 7": "left alone: it could not be read again"}
    assert scene.signalled() == []


def test_who_is_gone_already_is_no_error() -> None:
    scene = Scene(orphan())
    scene.signals.gone.add(7)
    assert scene.end() == {"pid 7": "gone"}
    scene = Scene(orphan())
    del scene.now[7]
    assert scene.end() == {"pid 7": "gone"}


@pytest.mark.parametrize(
    ("env", "cgroup", "ended"),
    [
        ({}, "0::/system.slice/slurmd.service", True),
        ({"SSH_CONNECTION": "x"}, "0::/system.slice/slurmd.service", False),
        ({"XDG_SESSION_ID": "1"}, "0::/system.slice/slurmd.service", False),
        ({}, "0::/system.slice/cron.service", False),
    ],
)
def test_user_and_time_are_enough_only_where_slurmd_starts_its_processes(
    env: dict[str, str], cgroup: str, *, ended: bool
) -> None:
    one = Orphan(Process(7, 1001, cgroup, env=env), 501, "user and time")
    scene = Scene(one)
    scene.cgroup = "0::/system.slice/slurmd.service"
    assert scene.end()["pid 7"].startswith("ended" if ended else "left alone")
