"""Rank 0's second part: collects the ranks, feeds the gang, tells all the decision.

The decision, the lines and the report are the C core's (gang.h, story.h), the same as
the plugin's. Nothing here blocks; the host calls ``on`` and ``step``.
"""

from __future__ import annotations

import os
import socket
import time

from gangstart import __version__, core, iface
from gangstart.gang import Gang
from gangstart.gpuanswer import GpuWord
from gangstart.record import Record, replace
from gangstart.run import judge
from gangstart.run.launched import SPECIAL_STEP
from gangstart.run.member import Member
from gangstart.story import Offer, Story

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gangstart.run.member import Ready
    from gangstart.run.userreport import Reports
    from gangstart.run.world import Message, World

UNKNOWN_NODE = "(unknown)"
MISFIT_S = 1.5  # others may still answer after one could not reach an address


class Came(Record):
    """A rank's word and when it was ready, on this process's monotonic clock."""

    member: Member
    at: float


class Root:
    """The place that decides, in the process that is rank 0 of MPI's world."""

    def __init__(self, world: World, ready: Ready, reports: Reports) -> None:
        """Wait for everybody; T runs from the first one's arrival."""
        self.world, self.ready, self.reports = world, ready, reports
        self.key = iface.random_bytes(iface.KEY_SIZE)
        self.came: dict[int, Came] = {}  # by MPI's rank
        self.ranks: dict[int, int] = {}  # MPI's rank -> RANK
        self.gang: Gang | None = None
        self.judged = judge.Judged()
        self.offer: Offer | None = None
        self.control = 0  # port
        self.tried = 0
        self.round = 0
        self.answered: set[str] = set()
        self.misfit_at: float | None = None
        self.first = ready.came
        self.sent = 0.0  # the layout, on the monotonic clock
        self.told = False

    def on(self, source: int, message: Message, now: float) -> None:
        """Take a message of a rank."""
        handlers = {
            "hello": self._hello,
            "fit": self._fit,
            "unfit": self._unfit,
            "offer": self._offer,
            "reach": self._reach,
        }
        handlers[message["k"]](source, message, now)

    def step(self, now: float) -> None:
        """Decide if it can be decided."""
        if self.told:
            return
        everybody = len(self.came) == self.world.size
        over = now >= self.first + self.ready.spec.timeout_s
        if self.gang is None and (everybody or over):
            self._gather(now)
        if self.gang is not None:
            self._next_candidate(now)
            if self.gang.tick(now) != "waiting":
                self._tell()

    def _hello(self, source: int, message: Message, now: float) -> None:
        member = Member.unpacked(message["member"])
        at = now - member.age_s
        self.came[source] = Came(member, at)
        self.first = min(self.first, at)

    # -- everybody is there, or time is over --------------------------------------

    def _gather(self, now: float) -> None:
        known = [self.came[i] for i in sorted(self.came)]
        told = self.ready.launched
        procs = [one.member.proc for one in known]
        self.judged = judge.judge(procs, told.by, told.pmi)
        chosen = self.judged.ranks or tuple(proc.mpi_rank for proc in procs)
        self.ranks = dict(zip(sorted(self.came), chosen, strict=True))
        step = self._step()
        nodes = self._nodes()
        self.gang = Gang(step, nodes, self.ready.spec.timeout_s)
        self.gang.require(self.ready.spec)
        for one in sorted(known, key=lambda c: c.at):
            self._feed(one)
        for node in nodes:
            if node != UNKNOWN_NODE and self.ready.spec.health != "off":
                self.gang.told(node, self._gpu_word(node), now)
        if self.judged.code:
            self.gang.fail(known[0].member.proc.node, self.judged.message, now)
        elif UNKNOWN_NODE in nodes:
            for source in self.came:
                self._arrive(source)
        else:
            self._send_layout(step)

    def _feed(self, one: Came) -> None:
        member, gang = one.member, self._gang()
        node = member.proc.node
        gang.hello(node, one.at)
        gang.node_address(node, member.address)
        rank = self.ranks[member.proc.mpi_rank]
        seen = self._seen(member)
        gang.describe(rank, None if seen is None else len(seen), member.program_errno)

    def _gang(self) -> Gang:
        if self.gang is None:
            raise RuntimeError("the ranks have not been gathered")
        return self.gang

    def _step(self) -> tuple[int, int, int]:
        """Slurm's step; elsewhere the moment of this start stands for it."""
        told = self.ready.launched
        return told.step or step_of_moment(told.job, time.time_ns())

    def _nodes(self) -> dict[str, list[int]]:
        """Ranks of each node, in Slurm's order or that of the ranks."""
        nodes: dict[str, list[int]] = {}
        place: dict[str, tuple[int, int]] = {}
        for source, rank in sorted(self.ranks.items(), key=lambda one: one[1]):
            member = self.came[source].member
            nodes.setdefault(member.proc.node, []).append(rank)
            place.setdefault(member.proc.node, (member.node_index or 0, rank))
        ordered = {node: nodes[node] for node in sorted(nodes, key=place.__getitem__)}
        missing = sorted(set(range(self.world.size)) - set(self.ranks.values()))
        return ordered | ({UNKNOWN_NODE: missing} if missing else {})

    # -- the GPUs -----------------------------------------------------------------

    def _on_node(self, node: str) -> list[Came]:
        return [one for one in self.came.values() if one.member.proc.node == node]

    def _uuids(self, node: str) -> tuple[str, ...]:
        return next((c.member.uuids for c in self._on_node(node) if c.member.uuids), ())

    def _seen(self, member: Member) -> list[str] | None:
        """UUIDs of the GPUs that a rank sees; None: not known."""
        uuids = self._uuids(member.proc.node)
        if not uuids:
            return None
        shown = core.visible(member.visible, len(uuids), uuids)
        return [uuids[i] for i in shown]

    def _visible(self) -> dict[int, list[str]]:
        found = {
            self.ranks[source]: self._seen(one.member)
            for source, one in self.came.items()
        }
        return {rank: seen for rank, seen in found.items() if seen is not None}

    def _gpu_word(self, node: str) -> GpuWord:
        words = [c.member.gpu for c in self._on_node(node) if c.member.gpu is not None]
        word = words[0] if words else GpuWord()
        ranks = sorted(self._gang().ranks[node])
        seen = self._visible()
        tasks = {i: seen[rank] for i, rank in enumerate(ranks) if rank in seen}
        if len(tasks) < len(ranks) or len(ranks) < 2:  # noqa: PLR2004 - two share one
            return word
        return replace(word, binding=iface.shared_gpu(tasks, ranks))

    # -- everybody plans his environment; one offers a meeting place ----------------

    def _send_layout(self, step: tuple[int, int, int]) -> None:
        layout = {
            "step": list(step[:2]),
            "nodes": self._gang().ranks,
            "visible": self._visible(),
            "slurm": self.ready.launched.step is not None,
        }
        common = {"k": "layout", "layout": layout, "key": self.key.hex()}
        holder = next((s for s, rank in self.ranks.items() if rank == 0), None)
        for source, rank in self.ranks.items():
            hold = source == holder
            self.world.send(source, {**common, "rank": rank, "hold": hold})
        self.sent = time.monotonic()

    def _fit(self, source: int, message: Message, now: float) -> None:
        rtt = max(now - self.sent - message["held_s"], 0.0)
        offset = message["wall"] + rtt / 2 - time.time()
        self._gang().node_clock(self.came[source].member.proc.node, offset, rtt)
        self._arrive(source)

    def _arrive(self, source: int) -> None:
        one = self.came[source]
        member = one.member
        self._gang().arrive(member.proc.node, self.ranks[source], one.at, member.claim)

    def _unfit(self, source: int, message: Message, now: float) -> None:
        self._gang().fail(self.came[source].member.proc.node, message["text"], now)

    # -- where the ranks meet -----------------------------------------------------

    def _offer(self, _source: int, message: Message, _now: float) -> None:
        raw: Mapping[str, Any] = message["offer"]
        candidates = [iface.Candidate(**one) for one in raw["candidates"]]
        self.offer = Offer(**{**raw, "candidates": candidates})
        self.control = message["control"]
        self._probe()

    def _probe(self) -> None:
        offer = self.offer
        if offer is None:
            return
        self.round += 1
        self.answered.clear()
        self.misfit_at = None
        self._gang().unwire()
        listed = offer.candidates
        address = listed[self.tried].address if listed else ""
        probe = {
            "k": "probe",
            "round": self.round,
            "address": address,
            "port": offer.port,
            "name": offer.name,
            "match": address if offer.must_match else "",
        }
        for ranks in self._gang().ranks.values():
            first = min(
                (s for s, rank in self.ranks.items() if rank in ranks), default=None
            )
            if first is not None:
                self.world.send(first, probe)

    def _reach(self, source: int, message: Message, now: float) -> None:
        if message["round"] != self.round:
            return  # of an address that was given up meanwhile
        node = self.came[source].member.proc.node
        self.answered.add(node)
        self._gang().reach(
            node,
            message["result"],
            message["detail"],
            message["text"],
            message["rtt_s"],
        )
        if message["result"] != "ok" and self.misfit_at is None:
            self.misfit_at = now

    def _next_candidate(self, now: float) -> None:
        gang = self._gang()
        if self.misfit_at is None or self.offer is None:
            return
        if now < self.misfit_at + MISFIT_S and len(self.answered) < len(gang.names):
            return
        if self.tried + 1 >= len(self.offer.candidates):
            gang.unreachable(now)
            return
        self.tried += 1
        self._probe()

    # -- the decision -------------------------------------------------------------

    def _story(self) -> Story:
        slurm = self.ready.launched.step is not None
        return Story(
            begun=self.first,
            spec=self.ready.spec.canonical,
            offer=self.offer,
            tried=self.tried,
            version=__version__,
            slurm_version=self.ready.slurm_version,
            cluster=self.reports.cluster if slurm else "",
            submit_host=socket.gethostname(),
            program=self._program(),
            user_id=os.getuid(),
        )

    def _program(self) -> str:
        """The program, by the word of one that cannot execute it if there is any."""
        members = [one.member for one in self.came.values()]
        lacking = [m.program for m in members if m.program_errno]
        return lacking[0] if lacking else self.ready.program

    def _tell(self) -> None:
        self.told = True
        gang, story = self._gang(), self._story()
        released = gang.outcome == "released"
        text = story.message(gang)
        if released and self.judged.message:
            text += f"gang-start: warning: {self.judged.message}\n"
        path, note = self.reports.keep(gang.step[:2], story.report(gang))
        answer: Message = {"k": "stop", "code": gang.code or 75}
        if released and self.offer is not None:
            listed = self.offer.candidates
            answer = {
                "k": "go",
                "address": self.offer.address(self.tried),
                "port": self.offer.port,
                "t0": time.time(),
                "report": path,
                "control": [listed[self.tried].address if listed else "", self.control],
            }
        for source in range(self.world.size):
            self.world.send(source, answer)
        self.reports.say(text + note)


def step_of_moment(job: int | None, now_ns: int) -> tuple[int, int, int]:
    """Job, step and restart count for a start outside of a step of Slurm's.

    The report has its name from it, and two starts of a script often are of one second:
    so second and microsecond, in a job (None: in none) its milliseconds, which come
    again after 49 days. now_ns: Unix time in ns.
    """
    if job is not None:
        return job, now_ns // 1_000_000 % SPECIAL_STEP, 0
    return now_ns // 1_000_000_000, now_ns // 1_000 % 1_000_000, 0
