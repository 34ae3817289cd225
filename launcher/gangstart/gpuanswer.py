"""What a look at a node's GPUs answers: plain data, without the C core behind it."""

from __future__ import annotations

from gangstart.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class GpuWord(Record):
    """What a node tells the step about its GPUs (struct gs_healthmsg of wire.h)."""

    verdict: str = "unknown"
    none: bool = False  # the node has no GPU
    counts: tuple[int, ...] = (0, 0, 0, 0)  # GPUs by verdict: ok unknown warn fail
    took_s: float = 0.0
    alike: int = 0  # equal on nodes with the same kind of GPUs
    why: str = "nobody looked at them"  # why it is not ok, "" if it is
    binding: str = ""  # which tasks share a GPU, "" = none
    record: str = "{}"  # JSON of docs/health.schema.json


class Health(Record):
    """What a look found; ``event`` is the record of docs/health.schema.json."""

    verdict: str  # ok | unknown | warn | fail
    drain: bool  # the node should take no further job
    none: bool  # the node has no GPU
    sentence: str  # all of it in one line
    event: dict[str, Any]
    word: GpuWord = GpuWord()
