"""Records of checks of nodes as typed events: before, after and at the start of a job.

Three writers, one form: ``gangstart check`` and the plugin's hooks in
SPOOL/JOB.node/sys/events.jsonl (docs/check.schema.json), and the health part of a start
report (docs/health.schema.json). Pure: what is not of these forms is passed over.

Kinds of events, with the fields that rules look at:
check_gpu     a finding about a GPU that counts: check, verdict, stage, index, pci
check_change  what differs after the job from before it: reading, verdict, after
check_same    both samples were compared, and nothing differs
check_left    a process of an ended job: pid, job, program, mib, ports
check_shm     shared memory of ended jobs: count, first
check_other   a finding beside the GPUs: check, verdict
check_drain   the node was to take no further job
check_ended   what cleanup signalled or removed: action, pids
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gangstart.check.gpupart import rows
from gangstart.check.result import clean
from gangstart.triage.model import Event, GpuUse, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gangstart.triage.source.archive import CheckEvent

    Told = Mapping[str, Any]

MIB = 1 << 20
COUNTS = ("warn", "fail")  # compared, not looked up: a value may be anything
#: Findings that say that memory of a GPU is held by no job that runs.
HELD = ("process", "memory_held")
DEVICE = re.compile(r"nvidia(\d+)$")
#: Of one record; a node has 16 GPUs and a few hundred findings at most.
MOST = 200
EARLY_S = 5.0  # a node's clock may be that much behind slurmctld's
TEXT = 400


def events(
    kept: Iterable[CheckEvent], begun: float | None = None
) -> tuple[list[Event], list[GpuUse]]:
    """Typed events of a job's own records, and who held its GPUs before it.

    ``begun``: when Slurm began the run in question; who held a GPU before an earlier
    run is of no matter.
    """
    made: list[Event] = []
    uses: list[GpuUse] = []
    for one in kept:
        place = Place(str(one.path), one.line)
        found, held = record(one.node, one.told, place)
        made += found
        uses += held
    return made, [use for use in uses if not before(use, begun)]


def before(use: GpuUse, begun: float | None) -> bool:
    """Whether it was before a run began, as far as both times are known."""
    return begun is not None and use.time is not None and use.time < begun - EARLY_S


def record(node: str, told: Told, place: Place) -> tuple[list[Event], list[GpuUse]]:
    """One line of events.jsonl; ``node`` is "" where only the line itself names it."""
    maker = Maker(node or clean(told.get("node", "")), told, place)
    if told.get("event") == "cleanup":
        return list(maker.ended()), []
    if told.get("event") != "check":
        return [], []
    made = [
        *maker.gpus(part(part(told, "gpu"), "event")),
        *maker.changes(),
        *maker.left(),
        *maker.others(),
        *maker.drained(),
    ]
    uses = list(maker.uses()) if told.get("stage") == "prolog" else []
    return made[:MOST], uses


def started(node: str, health: Told, at: float | None, place: Place) -> list[Event]:
    """The health part that a start report has of one node."""
    sample = health.get("record")
    if not isinstance(sample, dict):
        return []
    maker = Maker(node, {"stage": "start", "time": at}, place)
    return list(maker.gpus(sample))[:MOST]


def part(told: Told, name: str) -> Told:
    """An object inside of an object; empty if it is none."""
    found = told.get(name)
    return found if isinstance(found, dict) else {}


def whole(value: object) -> int | None:
    """A whole number; None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class Maker:
    """Makes the events of one record of one node."""

    def __init__(self, node: str, told: Told, place: Place) -> None:
        """Remember where and when."""
        self.node, self.told, self.place = node, told, place
        at = told.get("time")
        self.time: float | None = None
        if isinstance(at, (int, float)) and not isinstance(at, bool):
            self.time = float(at)
        self.stage = clean(told.get("stage", ""))

    def make(self, kind: str, text: object, **fields: object) -> Event:
        """One event."""
        known = {k: clean(v) for k, v in fields.items() if v not in (None, "")}
        return Event(
            kind,
            clean(text, TEXT),
            self.place,
            self.place.line,
            self.time,
            self.node or None,
            fields={"stage": self.stage, **known},
            dated=self.time is not None,
        )

    def gpus(self, sample: Told) -> Iterator[Event]:
        """Findings about GPUs that count; a note or what was skipped does not."""
        count = len(rows(sample, "gpus"))
        for found in rows(sample, "findings"):
            if found.get("kind") != "hit" or found.get("verdict") not in COUNTS:
                continue
            yield self.make(
                "check_gpu",
                found.get("reason", ""),
                check=found.get("check"),
                verdict=found["verdict"],
                index=whole(found.get("gpu")),
                pci=found.get("pci"),
                gpus=count,
            )

    def changes(self) -> Iterator[Event]:
        """What differs from the sample before the job."""
        told = part(self.told, "differences")
        found = [d for d in rows(told, "found") if d.get("verdict") in COUNTS]
        if told.get("compared") is True and not found:
            text = "the GPUs are after the job as they were before it"
            yield self.make("check_same", text)
        sample = rows(part(part(self.told, "gpu"), "event"), "gpus")
        places = {clean(g["uuid"]): g.get("index") for g in sample if g.get("uuid")}
        for one in found:
            yield self.make(
                "check_change",
                one.get("reason", ""),
                reading=one.get("reading"),
                change=one.get("kind"),
                verdict=one["verdict"],
                index=whole(places.get(clean(one.get("uuid", "")))),
                pci=one.get("pci"),
                after=one.get("after"),
                gpus=len(sample),
            )

    def left(self) -> Iterator[Event]:
        """What ended jobs had left when this was looked at."""
        told = part(self.told, "leftovers")
        for one in rows(told, "processes"):
            job, mib = whole(one.get("job")), whole(one.get("gpu_memory_mib"))
            whose = f"of job {job}" if job is not None else "of no job that runs"
            held = f", holds {mib} MiB of GPU memory" if mib else ""
            program = clean(one.get("program", ""))
            ports = [str(p) for p in listed(one, "ports") if whole(p) is not None]
            yield self.make(
                "check_left",
                f"pid {one.get('pid')} ({program}) {whose} was still there{held}",
                pid=whole(one.get("pid")),
                job=job,
                program=program,
                mib=mib,
                ports=" ".join(ports),
            )
        shm = [clean(name) for name in listed(told, "shm")]
        if shm:
            text = f"{len(shm)} files of ended jobs in /dev/shm, such as {shm[0]}"
            yield self.make("check_shm", text, count=len(shm), first=shm[0])

    def others(self) -> Iterator[Event]:
        """Findings beside the GPUs."""
        for found in rows(self.told, "findings"):
            if found.get("kind") == "hit" and found.get("verdict") in COUNTS:
                yield self.make(
                    "check_other",
                    found.get("reason", ""),
                    check=found.get("check"),
                    verdict=found["verdict"],
                    subject=found.get("subject"),
                )

    def drained(self) -> Iterator[Event]:
        """That the node was to take no further job."""
        if self.told.get("drain") is True:
            yield self.make("check_drain", self.told.get("reason", ""))

    def ended(self) -> Iterator[Event]:
        """What cleanup did."""
        pids = [whole(p.get("pid")) for p in rows(self.told, "processes")]
        named = ", ".join(str(pid) for pid in pids if pid is not None)
        action = clean(self.told.get("action", ""))
        what = f"pid {named}" if named else f"{len(listed(self.told, 'files'))} files"
        yield self.make("check_ended", f"{action} to {what}", action=action, pids=named)

    def uses(self) -> Iterator[GpuUse]:
        """GPUs whose memory somebody held who is of no job that runs."""
        processes = rows(part(self.told, "leftovers"), "processes")
        left = {pid: p for p in processes if (pid := whole(p.get("pid"))) is not None}
        sample = part(part(self.told, "gpu"), "event")
        held = [f.get("gpu") for f in rows(sample, "findings") if counts(f)]
        for gpu in rows(sample, "gpus"):
            index = whole(gpu.get("index"))
            if index is None:
                continue
            pids = {
                pid: (whole(one.get("memory")) or 0) / MIB
                for one in rows(gpu, "processes")
                if (pid := whole(one.get("pid"))) is not None
                and (pid in left or index in held)
            }
            pids = pids or by_device(left, index)
            if pids:
                who = {p: origin(left[p]) for p in pids if p in left}
                yield GpuUse(self.node, index, None, pids, who, self.place, self.time)


def counts(finding: Told) -> bool:
    """Whether a finding says that memory is held by nobody who runs."""
    return finding.get("check") in HELD and finding.get("verdict") in COUNTS


def listed(told: Told, name: str) -> Sequence[object]:
    """A list in an object; empty if it is none."""
    found = told.get(name)
    return found if isinstance(found, list) else []


def by_device(left: Mapping[int, Told], index: int) -> dict[int, float]:
    """Leftovers that have this GPU open, where the driver did not tell of processes."""
    made = {}
    for pid, one in left.items():
        opened = [DEVICE.search(str(name)) for name in listed(one, "devices")]
        mib = whole(one.get("gpu_memory_mib"))
        if mib and any(found and int(found[1]) == index for found in opened):
            made[pid] = float(mib)
    return made


def origin(process: Told) -> str:
    """Whose a leftover is: its program and the ended job."""
    job, program = whole(process.get("job")), clean(process.get("program", ""))
    whose = f"job {job}" if job is not None else "no job that runs"
    return f"{program} of {whose}" if program else f"of {whose}"
