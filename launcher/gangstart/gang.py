"""The start barrier's decision from Python: feed arrivals, get the outcome."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from gangstart._core import ffi, lib
from gangstart.core import Keeper, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangstart._core import CData


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


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
        keep = Keeper()
        story = self._story(keep, begun)
        told = (
            lib.gs_story_start(story)
            if self.outcome == "released"
            else lib.gs_story_refusal(story)
        )
        line = text(told)
        lib.gs_text_free(told)
        return line

    def _story(self, keep: Keeper, begun: float) -> CData:
        spec = keep.new("struct gs_spec *")
        lib.gs_spec_init(spec)
        story = keep.new("struct gs_story *")
        story.gang, story.spec, story.begun_us = self._gang, spec, _us(begun)
        for name in (
            "master_addr",
            "version",
            "slurm_version",
            "cluster",
            "submit_host",
            "program",
        ):
            setattr(story, name, keep.string(""))
        return story
