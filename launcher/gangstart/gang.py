"""The start barrier's decision from Python: feed arrivals, get the outcome."""

from __future__ import annotations

import struct

from gangstart._core import ffi, lib
from gangstart.core import Keeper, text
from gangstart.gpupolicy import VERDICTS
from gangstart.story import Story, c_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangstart import core
    from gangstart._core import CData
    from gangstart.gpuanswer import GpuWord

VERDICT_CODES = {name: code for code, name in VERDICTS.items()}
#: How a node's try to reach rank 0's node can end.
REACH = {
    "ok": lib.GS_REACH_OK,
    "connect": lib.GS_REACH_CONNECT,
    "stranger": lib.GS_REACH_STRANGER,
    "resolve": lib.GS_REACH_RESOLVE,
    "elsewhere": lib.GS_REACH_ELSEWHERE,
}


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _cut(value: str, size: int) -> bytes:
    """Bytes that fit a C array of ``size``, the end included."""
    return value.encode(errors="replace").replace(b"\0", b"?")[: size - 1]


class Gang:
    """One step's barrier on a clock of seconds that the caller keeps.

    nodes maps each node's name to its ranks, in the order of the step's node list;
    the ranks are 0..n-1, each exactly once. Raises ValueError otherwise.
    """

    def __init__(
        self,
        step: tuple[int, int, int],
        nodes: Mapping[str, Sequence[int]],
        timeout: float,
    ) -> None:
        """Expect nodes for step (job id, step id, restart count), T in seconds."""
        self.names = list(nodes)
        self.ranks = {name: list(ranks) for name, ranks in nodes.items()}
        self.step = step
        self.tasks = sum(len(r) for r in self.ranks.values())
        made = lib.gs_gang_create(len(nodes), self.tasks, _us(timeout))
        if made == ffi.NULL:
            raise ValueError("a gang needs at least one node and one task")
        self._gang = ffi.gc(made, lib.gs_gang_destroy)
        self._gang.job_id, self._gang.step_id, self._gang.restart_count = step
        for index, (name, ranks) in enumerate(self.ranks.items()):
            if lib.gs_gang_expect(self._gang, index, name.encode(), ranks, len(ranks)):
                raise ValueError(
                    f"ranks of {name} are not 0..{self.tasks - 1}, once each"
                )

    def is_ours(self, job_id: int, step_id: int, restart: int) -> bool:
        """Whether an arrival belongs to this step and run; counts it if not."""
        return bool(lib.gs_gang_is_ours(self._gang, job_id, step_id, restart))

    def hello(self, node: str, now: float) -> None:
        """Let a node connect; T runs from the first one."""
        keep = Keeper()
        ranks = self.ranks[node]
        made = keep.new("struct gs_hello *")
        made.job_id, made.step_id, made.restart_count = self.step
        made.node_index, made.node_count = self.names.index(node), len(self.names)
        made.task_count, made.rank_count = self.tasks, len(ranks)
        raw = keep.new("uint8_t[]", struct.pack(f">{len(ranks)}I", *ranks))
        made.ranks = raw
        lib.gs_gang_hello(self._gang, made, _us(now), ffi.NULL)

    def arrive(self, node: str, rank: int, now: float, claim: int = 0) -> bool:
        """Let a task arrive. False: it is not a rank of that node."""
        index = self.names.index(node)
        return bool(lib.gs_gang_arrive(self._gang, index, rank, claim, _us(now)) == 0)

    def mismatch(self, rank: int) -> None:
        """Mark a rank as contradicting the step."""
        lib.gs_gang_mismatch(self._gang, rank)

    def describe(self, rank: int, visible: int | None, program: int) -> None:
        """Note how many GPUs a task sees (None: not told) and why it cannot run.

        ``program`` is the errno of executing the program there, 0 = it can be.
        """
        task = self._gang.tasks[rank]
        task.visible = lib.GS_NO_RANK if visible is None else visible
        task.program = program

    def node_address(self, node: str, address: str) -> None:
        """Note a node's own address."""
        self._gang.nodes[self.names.index(node)].address = _cut(
            address, lib.GS_ADDR_SIZE
        )

    def node_clock(self, node: str, offset: float, rtt: float) -> None:
        """Note how far a node's wall clock is from ours, in seconds, +- half of rtt.

        The measurement with the shortest way there and back counts.
        """
        entry = self._gang.nodes[self.names.index(node)]
        if entry.hello_rtt_us < 0 or _us(rtt) < entry.hello_rtt_us:
            entry.clock_offset_us, entry.hello_rtt_us = _us(offset), _us(rtt)

    def require(self, spec: core.Spec) -> None:
        """Let the release wait for each node's proof and for the wanted GPU looks."""
        self._gang.wiring = True
        keep = Keeper()
        self._gang.health = lib.gs_gang_health_mode(c_spec(keep, spec.canonical))

    def told(self, node: str, health: GpuWord, now: float) -> None:
        """Take what a node found on its GPUs; the first word counts."""
        keep = Keeper()
        made = keep.new("struct gs_healthmsg *")
        made.node_index = self.names.index(node)
        made.verdict, made.none = VERDICT_CODES[health.verdict], health.none
        made.shared_gpu = bool(health.binding)
        for i, count in enumerate(health.counts):
            made.counts[i] = count
        made.took_us, made.alike = _us(health.took_s), health.alike
        made.why = _cut(health.why, lib.GS_TEXT_SIZE)
        made.binding = _cut(health.binding, lib.GS_TEXT_SIZE)
        record = health.record.encode()
        made.record, made.record_size = keep.new("uint8_t[]", record), len(record)
        lib.gs_gang_health(self._gang, made, _us(now))

    def reach(
        self,
        node: str,
        result: str,
        detail: int = 0,
        text: str = "",
        rtt: float = 0.0,
    ) -> None:
        """Take a node's try to reach rank 0's node; result is a key of REACH.

        detail: errno; text: the address a name has there; rtt: seconds.
        """
        keep = Keeper()
        made = keep.new("struct gs_reach *")
        made.node_index = self.names.index(node)
        made.result, made.detail = REACH[result], detail
        made.text, made.rtt_us = _cut(text, lib.GS_ADDR_SIZE), _us(rtt)
        lib.gs_gang_reach(self._gang, made)

    def unwire(self) -> None:
        """Forget all tries: another address comes next."""
        lib.gs_gang_unwire(self._gang)

    def unreachable(self, now: float) -> None:
        """No address is left to try: refuse."""
        lib.gs_gang_unreachable(self._gang, _us(now))

    def fail(self, node: str, sentence: str, now: float) -> None:
        """Refuse: a node's options or environment cannot work (exit code 78)."""
        keep = Keeper()
        made = keep.new("struct gs_fail *")
        made.node_index, made.rank = self.names.index(node), lib.GS_NO_RANK
        made.kind = lib.GS_FAIL_CONFIG
        made.text = _cut(sentence, lib.GS_TEXT_SIZE)
        lib.gs_gang_fail(self._gang, made, _us(now))

    @property
    def code(self) -> int:
        """Exit code of a refusal: 69, 75 or 78; 0 otherwise."""
        return int(self._gang.code) if self.outcome == "refused" else 0

    @property
    def c(self) -> CData:
        """The ``struct gs_gang *``, for other wrappers of the core."""
        return self._gang

    def end(self, now: float) -> None:
        """Give up waiting: the launch is over."""
        lib.gs_gang_end(self._gang, False, _us(now))  # noqa: FBT003 - a C call

    def tick(self, now: float) -> str:
        """Decide if possible; the outcome's name."""
        return text(lib.gs_outcome_name(lib.gs_gang_tick(self._gang, _us(now))))

    @property
    def next_at(self) -> float | None:
        """When a tick may decide by itself, in seconds."""
        at = lib.gs_gang_next_us(self._gang)
        return None if at < 0 else at / 1e6

    @property
    def outcome(self) -> str:
        """Name of the outcome: waiting, released, refused, cancelled."""
        return text(lib.gs_outcome_name(self._gang.outcome))

    @property
    def decided_at(self) -> float | None:
        """Moment of the decision, in seconds."""
        at = self._gang.decided_us
        return None if at < 0 else at / 1e6

    @property
    def stale(self) -> int:
        """Arrivals of another step or run."""
        return int(self._gang.stale_count)

    def arrived(self) -> dict[int, float]:
        """Rank -> second of its arrival."""
        tasks = self._gang.tasks
        return {
            rank: tasks[rank].arrived_us / 1e6
            for rank in range(self.tasks)
            if tasks[rank].state == lib.GS_TASK_ARRIVED
        }

    def mismatches(self) -> list[int]:
        """Ranks that contradict the step."""
        return [r for r in range(self.tasks) if self._gang.tasks[r].mismatch]

    def message(self, begun: float = 0.0) -> str:
        """What the user reads: the line of a good start or those of a refusal."""
        return Story(begun=begun).message(self)
