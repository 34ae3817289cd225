"""health(): a snapshot of this node's GPUs for a training, without pynvml.

The driver is only ever called in gangstart-probe, which can be killed and left behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gangstart.gpulook import Place

Verdict = Literal["ok", "unknown", "warn", "fail"]
DEADLINE_MAX_S = 3600.0


@dataclass(frozen=True)
class GpuFinding:
    """What a check found; ``check`` is its id in gangstart.conf(5)."""

    check: str
    verdict: Verdict
    uuid: str  # "" = of the node
    value: str
    limit: str
    reason: str
    action: str


@dataclass(frozen=True)
class Gpu:
    """One GPU. None: not known, which is never the same as 0."""

    index: int  # the driver's; match by uuid or pci
    uuid: str
    pci: str  # dddd:bb:dd.f
    name: str
    verdict: Verdict
    temperature_c: int | None
    power_w: float | None
    power_limit_w: float | None
    sm_clock_mhz: int | None
    utilization_percent: int | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    ecc_uncorrected: int | None  # since the driver was loaded
    nvlinks_active: int | None
    #: Every reading of docs/health.schema.json by name: a number in the unit of that
    #: page, or the driver's word for why there is none.
    readings: Mapping[str, int | str]


@dataclass(frozen=True)
class NodeHealth:
    """The node's GPUs at one moment; ``sentence`` says it all in one line."""

    verdict: Verdict
    sentence: str
    no_gpu: bool  # there is none, and none is expected
    took_s: float
    driver: str | None
    gpus: tuple[Gpu, ...]
    findings: tuple[GpuFinding, ...]  # what is not ok, worst first


RANKING = ("fail", "warn", "unknown", "ok")


def health(deadline: float = 20.0) -> NodeHealth:
    """Look at this node's GPUs: what they read, and what the site's policy says of it.

    deadline: seconds after which it ends whatever the driver does (above 0, up to
    3600); what was not answered by then is unknown. Some 10 ms per GPU. All GPUs that
    the driver shows to this process; usable in any process, with or without Slurm.

    Raises GangstartError for a bad deadline or a policy that cannot be read.
    """
    return looked(checked(deadline))


def checked(deadline: object) -> float:
    """The deadline in seconds; raises GangstartError for what cannot be."""
    usual = isinstance(deadline, (int, float)) and type(deadline) is not bool
    if usual and 0 < (seconds := float(str(deadline))) <= DEADLINE_MAX_S:
        return seconds
    raise GangstartError(
        f"health: deadline={deadline!r:.80}: seconds above 0 and up to 3600 are allowed"
    )


def looked(deadline: float, place: Place | None = None) -> NodeHealth:
    """As ``health``, of another place than this machine."""
    from gangstart.gpulook import measure  # noqa: PLC0415 - has the C core

    found = measure("start", place=place, deadline_s=deadline)
    event = found.event
    rows = [finding(row) for row in event["findings"] if row["kind"] == "hit"]
    bad = [row for row in rows if row.verdict != "ok"]
    return NodeHealth(
        verdict=cast("Verdict", found.verdict),
        sentence=found.sentence,
        no_gpu=found.none,
        took_s=float(event["took_s"] or 0.0),
        driver=str(event["node"].get("driver") or "") or None,
        gpus=tuple(gpu(row) for row in event["gpus"]),
        findings=tuple(sorted(bad, key=lambda row: RANKING.index(row.verdict))),
    )


def finding(row: Mapping[str, Any]) -> GpuFinding:
    """A finding of the record."""
    names = ("check", "verdict", "uuid", "value", "limit", "reason", "action")
    return GpuFinding(**{name: row[name] for name in names})


def gpu(row: Mapping[str, Any]) -> Gpu:
    """A GPU of the record."""
    readings: Mapping[str, int | str] = row.get("readings", {})

    def read(name: str) -> int | None:
        value = readings.get(name)
        return value if isinstance(value, int) else None

    def watts(name: str) -> float | None:
        value = read(name)
        return None if value is None else value / 1000  # the driver tells mW

    return Gpu(
        index=row["index"],
        uuid=row["uuid"],
        pci=row["pci"],
        name=row["name"],
        verdict=row["verdict"],
        temperature_c=read("temperature"),
        power_w=watts("power"),
        power_limit_w=watts("power_limit"),
        sm_clock_mhz=read("clock_sm"),
        utilization_percent=read("utilization"),
        memory_used_bytes=read("memory_used"),
        memory_total_bytes=read("memory_total"),
        ecc_uncorrected=read("ecc_unc_volatile"),
        nvlinks_active=read("nvlink_active"),
        readings=readings,
    )
