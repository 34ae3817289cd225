"""What changed on a node's GPUs between two samples: gpudiff.h."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gangstart._core import ffi, lib
from gangstart.core import Keeper, text
from gangstart.gpu import kernel_log
from gangstart.gpupolicy import VERDICTS

if TYPE_CHECKING:
    from gangstart._core import CData
    from gangstart.gpu import Sample

KINDS = {k: text(lib.gs_gpudiff_kind_name(k)) for k in range(lib.GS_GPUDIFF_KINDS)}


@dataclass(frozen=True)
class Difference:
    """One change of one GPU; ``uuid`` is empty if it is of the node."""

    reading: str
    kind: str
    verdict: str
    uuid: str
    pci: str
    before: int
    after: int
    reason: str


@dataclass(frozen=True)
class Changes:
    """All changes and the worst verdict."""

    verdict: str
    differences: tuple[Difference, ...]

    def message(self) -> str:
        """Every change that is not fine as a sentence, worst first."""
        order = list(VERDICTS.values())
        told = [d for d in self.differences if d.verdict != "ok"]
        told.sort(key=lambda d: -order.index(d.verdict))
        return "; ".join(d.reason for d in told)


def _difference(raw: CData) -> Difference:
    return Difference(
        reading=text(raw.id),
        kind=KINDS[raw.kind],
        verdict=VERDICTS[raw.verdict],
        uuid=text(raw.uuid),
        pci=text(raw.pci),
        before=raw.before,
        after=raw.after,
        reason=text(raw.reason),
    )


def changes(
    before: Sample,
    after: Sample,
    log: str | None = None,
    *,
    boot_us: int = -1,
    host: bool = False,
) -> Changes:
    """Compare two samples of a node; ``log`` is the kernel log's text of the second."""
    keep = Keeper()
    facts = keep.new("struct gs_gpudiff_facts *")
    facts.xids = kernel_log(keep, log)
    facts.boot_us, facts.host = boot_us, host
    made = ffi.new("struct gs_gpudiffs *")
    if lib.gs_gpudiff_compare(before.c, after.c, facts, made) < 0:
        raise MemoryError
    return Changes(VERDICTS[made.verdict], differences_of(made))


def differences_of(made: CData) -> tuple[Difference, ...]:
    """Take the differences over and free what the core made of them."""
    try:
        return tuple(_difference(made.diffs[i]) for i in range(made.count))
    finally:
        lib.gs_gpudiffs_free(made)
