"""One check of a node: measure the GPUs, look around, judge, clean up, compare.

Everything that is done to the world goes through World; a test has its own.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path  # noqa: TC003 - dataclasses look at it when they are made
from typing import TYPE_CHECKING, Any

from gangstart.check import (
    aside,
    cleanup,
    dashboard,
    gpupart,
    gres,
    judge,
    leftover,
    outcome,
    rdma,
    record,
    scan,
    shm,
)
from gangstart.check.catalogue import hit
from gangstart.check.leftover import Job, Leftovers
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gangstart.check.leftover import Node, Orphan
    from gangstart.check.result import Finding
    from gangstart.gpuanswer import Health

PROLOG, EPILOG, NODE = "prolog", "epilog", "node"
STAGES = (PROLOG, EPILOG, NODE)
OFF, REPORT, KILL = "off", "report", "kill"
CLEANUPS = (OFF, REPORT, KILL)
FRESH_S = 60.0  # so long a look of the hook at the same stage saves another
SCAN_S = 10.0
GRACE_S = 5.0  # for processes that are ending by themselves


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    stage: str
    node: str
    job: Job | None = None
    gpus: Sequence[str] | None = None  # that the job gets; None = not known
    conf: str | None = None
    probe: str | None = None
    cleanup: str = REPORT
    spool: Path = record.SPOOL
    archive: Path | None = None
    deadline_s: float = 30.0


@dataclass(frozen=True)
class World:
    """Everything outside."""

    measure: gpupart.Measure = gpupart.measure
    differences: gpupart.Differences = gpupart.differences
    expected: Callable[[str], int] = gres.expected
    roots: scan.Roots = field(default_factory=scan.Roots)
    infiniband: Path = rdma.FOLDER
    signals: cleanup.Signals = field(default_factory=cleanup.PidSignals)
    now: Callable[[], float] = time.time
    grace_s: float = GRACE_S
    term_s: float = cleanup.TERM_S


@dataclass(frozen=True)
class Sight:
    """What was found around the GPUs."""

    scene: scan.Scene
    ports: Sequence[rdma.Port]


class Check:
    """One check; its steps in order are those of run()."""

    def __init__(self, request: Request, world: World) -> None:
        """Remember what is asked, and read what is recorded of the job."""
        self.request = request
        self.world = world
        self.begun = time.monotonic()
        self.at = world.now()
        self.findings: list[Finding] = []
        self.outcomes: list[cleanup.Outcome] = []
        self.left = Leftovers()
        self.running: list[int] | None = None
        self.scene: scan.Scene | None = None
        job = request.job
        self.spool = record.Spool(request.spool, job.job_id) if job else None
        events = self.spool.events() if self.spool else []
        self.recorded = [event for event in events if event.get("event") == "check"]
        self.users = record.open_jobs(request.spool)
        self.job = self.completed(job) if job else None

    def completed(self, job: Job) -> Job:
        """Add to a job what its records tell: when it began, whose it is."""
        first = outcome.last_of(self.recorded, PROLOG)
        uid, begun = first.get("job_uid"), outcome.time_of(first)
        return replace(
            job,
            uid=uid if job.uid is None and isinstance(uid, int) else job.uid,
            started=begun if job.started is None else job.started,
            ended=self.at if self.request.stage == EPILOG else None,
        )

    def left_s(self, most: float) -> float:
        """Seconds that a step may take."""
        passed = time.monotonic() - self.begun
        return max(min(most, self.request.deadline_s - passed), 0.1)

    def run(self) -> record.Event:
        """Do everything; what was found is the answer."""
        health, reused = self.gpus()
        sight = self.look(gpupart.memory_of(health.event))
        if sight is None:
            self.findings.append(
                hit(
                    "scan",
                    "processes and shared memory could not be read in time",
                    verdict="unknown",
                )
            )
        else:
            self.judge(sight, gpupart.memory_of(health.event))
        return outcome.event(self, health, reused=reused)

    def gpus(self) -> tuple[Health, bool]:
        """The GPUs' part, and whether it is from a fresh record."""
        kept = self.kept()
        if kept is not None:
            return kept, True
        # A person or a timer may ask Slurm; a Prolog or Epilog never does.
        node = self.request.stage == NODE
        expected = self.world.expected(self.request.node) if node else 0
        try:
            measured = self.world.measure(
                self.request.stage,
                conf=self.request.conf,
                probe=self.request.probe,
                gpus=self.request.gpus,
                expected=expected,
                deadline_s=self.left_s(self.request.deadline_s - SCAN_S),
            )
        except (GangstartError, OSError) as error:
            # A node is not taken out of service for a mistake in a file.
            if self.request.stage == NODE:
                raise
            why = getattr(error, "message", None) or f"GPUs not looked at: {error}"
            return gpupart.unknown(why), False
        return measured, False

    def kept(self) -> Health | None:
        """What the plugin's hook has just seen: the same moment of the same job.

        Only the last record counts, and never one of this command: a job that was
        requeued comes back within the minute, and finds other GPUs than it left.
        """
        last = self.recorded[-1] if self.recorded else {}
        made = outcome.time_of(last)
        if last.get("stage") != self.request.stage or "leftovers" in last:
            return None
        if made is None or not 0 <= self.at - made < FRESH_S:
            return None
        return gpupart.from_record(last.get("gpu", last))

    def look(self, memory: Mapping[int, int]) -> Sight | None:
        """Read the node, in a process that may hang in place of this one."""
        roots, infiniband = self.world.roots, self.world.infiniband
        judged = self.job.job_id if self.job else None
        open_jobs, me = frozenset(self.users), os.getpid()

        def read() -> Sight:
            seen = scan.scan(roots, judged, memory, open_jobs, me)
            return Sight(seen, rdma.ports(infiniband))

        return aside.call(read, self.left_s(SCAN_S))

    def judge(self, sight: Sight, memory: Mapping[int, int]) -> None:
        """Judge what was seen; leftovers get a moment to end by themselves."""
        scene = sight.scene
        if self.request.cleanup != OFF:
            scene = self.settled(scene, memory)
            scene = self.cleaned(scene, memory)
            ended = self.job if self.request.stage == EPILOG else None
            self.findings += judge.findings(
                self.left, scene, self.blocking(scene), ended.job_id if ended else None
            )
            if ended:
                self.findings += judge.temporary(ended, self.node(scene), scene)
        self.scene = scene
        self.running = None if scene.running is None else sorted(scene.running)
        if self.request.stage != PROLOG:
            job = self.job.job_id if self.job else None
            listening = judge.servers(scene, job)
            self.findings += dashboard.judge(listening, self.request.node)
        self.findings += rdma.judge(sight.ports)
        self.findings += outcome.inside_job(scene, self.request.stage)
        self.findings += [outcome.of_cleanup(one) for one in self.outcomes]

    def node(self, scene: scan.Scene) -> Node:
        """The decisions' view of a scene."""
        return scene.node(self.users)

    def blocking(self, scene: scan.Scene) -> set[int]:
        """Processes that are surely in the way of jobs to come."""
        asked = self.request
        return judge.in_the_way(asked.stage, self.job, self.node(scene), asked.gpus)

    def judged(self, scene: scan.Scene) -> Leftovers:
        """What is left over in a scene."""
        node = self.node(scene)
        return judge.left_behind(self.request.stage, self.job, node, self.request.gpus)

    def settled(self, scene: scan.Scene, memory: Mapping[int, int]) -> scan.Scene:
        """Judge; if something is left that may be about to end, wait and look again."""
        self.left = self.judged(scene)
        waits = [pid for pid in self.left.pids if scene.seen[pid].state != "D"]
        if self.request.stage == NODE or not waits:
            return scene
        grace = self.left_s(self.world.grace_s)
        if cleanup.settle(waits, self.world.signals, grace):
            scene = self.again(scene, memory)
        return scene

    def again(self, scene: scan.Scene, memory: Mapping[int, int]) -> scan.Scene:
        """Look once more, and judge that; without a second look the first counts."""
        sight = self.look(memory)
        if sight is None:
            return scene
        self.left = self.judged(sight.scene)
        return sight.scene

    def cleaned(self, scene: scan.Scene, memory: Mapping[int, int]) -> scan.Scene:
        """End processes and remove shared memory, if that is wanted."""
        wanted = self.request.cleanup == KILL and self.request.stage == EPILOG
        if not wanted or self.job is None or not (self.left.orphans or self.left.shm):
            return scene
        judged, before = set(self.left.shm), self.node(scene)
        order = self.order(scene, self.job, memory)
        try:
            if self.left.orphans:
                self.outcomes += cleanup.end(
                    self.left.orphans, order, self.world.signals
                )
                scene = self.again(scene, memory)
            names = judged | set(self.left.shm)
            names = judge.removable(names, before, self.node(scene), self.job)
            removed = cleanup.remove_shm(
                files_of(scene, names), scene.shm_folder, order
            )
        except OSError as error:
            why = f"nothing more was ended: it could not be recorded ({error.strerror})"
            self.findings.append(hit("clean_up", why))
            return scene
        self.outcomes += removed
        return self.again(scene, memory) if removed else scene

    def order(
        self, scene: scan.Scene, job: Job, memory: Mapping[int, int]
    ) -> cleanup.Order:
        """What may be ended, and how to look at it again."""
        node, roots = self.node(scene), self.world.roots

        def read(
            pids: Sequence[int],
        ) -> dict[int, tuple[scan.Seen, Orphan | None]]:
            reader = scan.Reader(roots, set(), memory)
            seen = {pid: one for pid in pids if (one := reader.read(pid))}
            return {
                pid: (one, leftover.orphan_of(one.process, job, node))
                for pid, one in seen.items()
            }

        def again(
            pids: Sequence[int],
        ) -> Mapping[int, tuple[scan.Seen, Orphan | None]] | None:
            return aside.call(lambda: read(pids), SCAN_S)

        return cleanup.Order(
            job,
            scene.seen,
            again,
            self.keep,
            own=scene.own,
            cgroup=scene.own_cgroup,
            term_s=self.world.term_s,
        )

    def keep(self, what: Mapping[str, Any]) -> None:
        """Record what is about to be done."""
        if self.spool is not None:
            self.spool.append(outcome.heading(self, "cleanup") | dict(what))


def files_of(scene: scan.Scene, names: set[str]) -> list[shm.File]:
    """The files of these names."""
    return [f for f in scene.files if f"{scene.shm_folder}/{f.name}" in names]
