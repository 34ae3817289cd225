"""One look at this node's GPUs through the core (health.h): probe, judge, record."""

from __future__ import annotations

import json
import select
import time

from gangstart._core import ffi, lib
from gangstart.core import Keeper, c_text, check, taken, text
from gangstart.gpuanswer import GpuWord, Health
from gangstart.gpupolicy import POLICY_FILE, VERDICTS, Policy
from gangstart.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from gangstart._core import CData
    from gangstart.gpudiff import Difference

STAGES = {text(lib.gs_stage_name(s)): s for s in range(lib.GS_STAGES)}
SLICE_S = 0.1
MICRO = 1_000_000
#: How long a bad GPU is looked at again: a Prolog must end soon, a person can wait.
PATIENCE_S = {"node": 15.0, "start": 0.0, "prolog": 5.0, "epilog": 20.0}


class Place(Record):
    """Where to look; the defaults are this machine's own."""

    conf: str | None = None  # "" = no file, the built-in policy
    probe: str | None = None  # "" = none
    library: str | None = None
    root: str | None = None
    lock: str | None = None
    kernel_log: str | None = None


def probe_path() -> str:
    """The probe that was installed with this package."""
    return f"{__file__.rpartition('/')[0]}/gangstart-probe"


def policy_of(conf: str | None) -> Policy:
    """What the site wants, from this file or from where it usually is."""
    if conf is None:
        return Policy.load(POLICY_FILE)
    if not conf:
        return Policy()
    return Policy.load(conf, optional=False)


def kernel_log_of(conf: str | None) -> str:
    """Where the site says the kernel log is."""
    return text(policy_of(conf).c.kernel_log)


def _ask(
    keep: Keeper, stage: str, place: Place, devices: Sequence[str] | None
) -> CData:
    ask = keep.new("struct gs_health_ask *")
    policy = policy_of(place.conf)
    keep.hold(policy)
    ask.policy = policy.c
    ask.stage = STAGES[stage]
    program = probe_path() if place.probe is None else place.probe
    ask.probe.program = keep.string(program or None)
    for name in ("library", "root", "lock"):
        value = getattr(place, name)
        if value is not None:
            setattr(ask.probe, name, keep.string(value))
    if place.kernel_log is not None:
        ask.kernel_log = keep.string(place.kernel_log)
    if devices:
        ask.devices = keep.string(",".join(devices))
    ask.patience_us = int(PATIENCE_S[stage] * MICRO)
    return ask


def _now_us() -> int:
    return time.monotonic_ns() // 1000


def _finish(look: CData, tick: Callable[[], None]) -> None:
    while not lib.gs_health_step(look, _now_us()):
        tick()
        fd = lib.gs_health_fd(look)
        select.select([fd] if fd >= 0 else [], [], [], SLICE_S)


def _nothing() -> None:
    """Show no progress."""


def measure(  # noqa: PLR0913  one argument per thing a caller may know
    stage: str = "node",
    *,
    place: Place | None = None,
    devices: Sequence[str] | None = None,
    expected: int = 0,
    idle: bool = False,
    in_container: bool = False,
    deadline_s: float | None = None,
    tick: Callable[[], None] = _nothing,
) -> Health:
    """Look at this node's GPUs; ends within the policy's or the given deadline.

    ``devices`` are the job's GPUs as Slurm names them (indices or UUIDs), None = all;
    ``expected`` is how many the node has by gres.conf, 0 = not known; ``tick`` is
    called about every 100 ms. Raises GangstartError for a policy that cannot be read.
    """
    keep = Keeper()
    ask = _ask(keep, stage, place or Place(), devices)
    ask.expected, ask.idle, ask.in_container = expected, idle, in_container
    if deadline_s is not None:
        ask.probe.whole_us = int(deadline_s * MICRO)
        ask.patience_us = min(ask.patience_us, int(deadline_s * MICRO))
    made = lib.gs_health_start(ask, _now_us())
    if made == ffi.NULL:
        raise MemoryError
    look = ffi.gc(made, lib.gs_health_destroy)
    _finish(look, tick)
    record = taken(lib.gs_health_record(look, lib.GS_RECORD_ALL))
    return Health(
        verdict=VERDICTS[look.verdict],
        drain=bool(look.judged and look.found.drain),
        none=bool(look.none),
        sentence=taken(lib.gs_health_sentence(look)),
        event=json.loads(record),
        word=_word(look),
    )


def _word(look: CData) -> GpuWord:
    return GpuWord(
        verdict=VERDICTS[look.verdict],
        none=bool(look.none),
        counts=tuple(look.counts[i] for i in range(lib.GS_VERDICTS)),
        took_s=(look.done_us - look.begun_us) / MICRO,
        alike=int(lib.gs_gpurule_alike(ffi.addressof(look.probe, "gpus"))),
        why=taken(lib.gs_health_why(look)),
        record=taken(lib.gs_health_record(look, lib.GS_RECORD_SAMPLE)),
    )


def differences(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    kernel_log: str | None = None,
) -> tuple[Difference, ...]:
    """What differs between two records of this node; the kernel log is read now.

    Raises GangstartError when one of them is no record.
    """
    from gangstart.gpudiff import differences_of  # noqa: PLC0415 - not for a start

    keep = Keeper()
    made, error = ffi.new("struct gs_gpudiffs *"), ffi.new("struct gs_error *")
    records = [c_text(json.dumps(record)) for record in (before, after)]
    rc = lib.gs_records_compare(*records, keep.string(kernel_log), made, error)
    check(rc, error)
    return differences_of(made)


def read(record: str) -> CData:
    """Read the sample of a record back as ``struct gs_gpus *``.

    Raises GangstartError when it is none.
    """
    gpus = ffi.new("struct gs_gpus *")
    error = ffi.new("struct gs_error *")
    check(lib.gs_health_read(c_text(record), gpus, error), error)
    return gpus
