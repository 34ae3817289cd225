"""GPU samples and what the C core thinks of them: gpu.h, policy.h, xid.h, gpurule.h.

A value that is not known is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gangstart._core import ffi, lib
from gangstart.core import Keeper, c_text, text
from gangstart.errors import GangstartError
from gangstart.gpupolicy import VERDICTS, Policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangstart._core import CData

NOT_TOLD = (1 << 64) - 1

READINGS = {text(lib.gs_gpu_reading_name(r)): r for r in range(lib.GS_GPU_READINGS)}
KINDS = {
    lib.GS_FINDING_HIT: "hit",
    lib.GS_FINDING_NOTE: "note",
    lib.GS_FINDING_SKIPPED: "skipped",
}
# Bits of NVML's clocks event reasons under NVML's own names.
CLOCK_REASONS = {
    0x1: "GPU_IDLE",
    0x2: "APPLICATIONS_CLOCKS_SETTING",
    0x4: "SW_POWER_CAP",
    0x8: "HW_SLOWDOWN",
    0x10: "SYNC_BOOST",
    0x20: "SW_THERMAL_SLOWDOWN",
    0x40: "HW_THERMAL_SLOWDOWN",
    0x80: "HW_POWER_BRAKE_SLOWDOWN",
    0x100: "DISPLAY_CLOCK_SETTING",
}


def nvml_code(name: str) -> int:
    """NVML's return code of a name; one nobody knows is NVML_ERROR_UNKNOWN."""
    code = lib.gs_gpu_code_of(c_text(name))
    return code if code >= 0 else lib.gs_gpu_code_of(b"NVML_ERROR_UNKNOWN")


def plain_text(value: str | bytes) -> str:
    """Text of a name however a library returns it: bytes, str, with or without NUL."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    return value.split("\0", 1)[0].strip()


def clock_reasons(mask: int) -> list[str]:
    """Names of the clocks event reasons in a mask."""
    return [name for bit, name in CLOCK_REASONS.items() if mask & bit]


@dataclass(frozen=True)
class NvmlError:
    """A query that failed, in place of its value."""

    code: int


@dataclass(frozen=True)
class GpuText:
    """Texts of one GPU; empty if they could not be read."""

    uuid: str = ""
    pci: str = ""
    name: str = ""
    vbios: str = ""
    serial: str = ""
    fabric_cluster: str = ""


class Sample:
    """What was read from a node's GPUs at one moment."""

    def __init__(self, init_code: int = 0, pci_count: int = -1) -> None:
        """No GPU yet; ``add`` them in the order of their index."""
        self._c = ffi.new("struct gs_gpus *")
        lib.gs_gpus_init(self._c)
        self._c.init_code = init_code
        self._c.count_code = 0 if init_code == 0 else lib.GS_GPU_NOT_ASKED
        self._c.pci_count = pci_count
        self._c.driver_loaded = init_code == 0

    @property
    def c(self) -> CData:
        """The ``struct gs_gpus *``, for other wrappers of the core."""
        return self._c

    def __len__(self) -> int:
        """How many GPUs."""
        return int(self._c.count)

    def hang(self, call: str, pci: str = "") -> None:
        """Record the query that did not return."""
        self._c.hung_call = c_text(call)[: lib.GS_GPU_TEXT - 1]
        self._c.hung_gpu = c_text(pci)[: lib.GS_GPU_TEXT - 1]

    def add(
        self,
        texts: GpuText,
        values: Mapping[str, int | NvmlError],
        processes: Sequence[tuple[int, int | None]] | NvmlError | None = None,
        *,
        code: int = 0,
        index: int | None = None,
    ) -> None:
        """Add a GPU; processes are (pid, bytes), code is that of getting its handle."""
        if len(self) == lib.GS_GPU_MAX:
            raise GangstartError(f"more than {lib.GS_GPU_MAX} GPUs in one node")
        gpu = self._c.gpus[len(self)]
        gpu.index = len(self) if index is None else index
        self._c.count += 1
        gpu.code = code
        for name, value in vars(texts).items():
            setattr(gpu, name, c_text(value)[: lib.GS_GPU_TEXT - 1])
        gpu.pci = c_text(pci_address(texts.pci) or texts.pci)[: lib.GS_GPU_TEXT - 1]
        for name, reading in values.items():
            slot = gpu.values[READINGS[name]]
            failed = isinstance(reading, NvmlError)
            slot.code = reading.code if isinstance(reading, NvmlError) else 0
            slot.value = 0 if failed else reading
        if isinstance(processes, NvmlError):
            gpu.process_code = processes.code
        elif processes is not None:
            gpu.process_code = 0
            gpu.process_count = min(len(processes), lib.GS_GPU_PROCESSES)
            for slot, (pid, used) in zip(gpu.processes, processes, strict=False):
                slot.pid, slot.memory = pid, NOT_TOLD if used is None else used

    def value(self, gpu: int, reading: str) -> int | None:
        """One reading; None unless it was read and can be true."""
        slot = self._c.gpus[gpu].values[READINGS[reading]]
        sane = slot.code == 0 and lib.gs_gpu_sane(READINGS[reading], slot.value)
        return int(slot.value) if sane else None

    def text(self, gpu: int, name: str) -> str | None:
        """One text of a GPU; None if it was not read."""
        return text(getattr(self._c.gpus[gpu], name)) or None

    def find(self, uuid: str = "", pci: str = "") -> int | None:
        """The GPU of a UUID or a PCI address: never by index, which others renumber."""
        address = pci_address(pci)
        for i in range(len(self)):
            if uuid and self.text(i, "uuid") == uuid:
                return i
            if address and self.text(i, "pci") == address:
                return i
        return None


def pci_address(value: str) -> str:
    """Normalise a PCI address into dddd:bb:dd.f; "" if it is none."""
    out = ffi.new(f"char[{lib.GS_XID_PCI}]")
    raw = c_text(value)
    return text(out) if lib.gs_pci_normalise(raw, len(raw), out) else ""


@dataclass(frozen=True)
class Context:
    """What a sample cannot tell by itself; see gpurule.h."""

    expected: int = -1
    root: bool = False
    in_container: bool = False
    idle: bool = False
    epilog: bool = False
    lasting: bool = False
    step_gpus: Sequence[str] = ()
    foreign: Sequence[int] = ()
    kernel_log: str | None = None
    boot_us: int = -1


@dataclass(frozen=True)
class Finding:
    """One finding of one check."""

    check: str
    code: str
    kind: str
    verdict: str
    settled: bool
    gpu: int | None  # place in the sample
    nvml_code: int
    xid: int
    node: str
    uuid: str
    pci: str
    value: str
    limit: str
    reason: str
    action: str
    source: str


class Verdict:
    """Judgement of one sample, or of the GPUs of a job beside each other."""

    def __init__(self, raw: CData) -> None:
        """Take over what the core has judged."""
        self._c = ffi.gc(raw, lib.gs_gpuverdict_free)
        self.node = VERDICTS[raw.node]
        self.step = VERDICTS[raw.step]
        self.drain = bool(raw.drain)
        self.look_again_us = int(raw.look_again_us)
        self.findings = tuple(_finding(raw.findings[i]) for i in range(raw.count))
        self.worst = self.findings[raw.worst] if raw.worst >= 0 else None

    @property
    def c(self) -> CData:
        """The ``struct gs_gpuverdict *``."""
        return self._c

    def hits(self, gpu: int | None = None) -> list[Finding]:
        """What was found, worst first; of one GPU or of all and the node."""
        found = [f for f in self.findings if f.kind == "hit" and f.verdict != "ok"]
        wanted = [f for f in found if gpu is None or f.gpu == gpu]
        return sorted(wanted, key=lambda f: -list(VERDICTS.values()).index(f.verdict))

    def message(self) -> str:
        """Every hit as a sentence; without one, what is not known."""
        said = [f.reason for f in self.hits()]
        if not said and self.worst is not None:
            said = [self.worst.reason]
        return "; ".join(dict.fromkeys(said))


def _finding(raw: CData) -> Finding:
    info = lib.gs_check_get(raw.check)
    return Finding(
        check=text(info.id),
        code=text(info.code),
        kind=KINDS[raw.kind],
        verdict=VERDICTS[raw.verdict],
        settled=bool(raw.settled),
        gpu=raw.gpu if raw.gpu >= 0 else None,
        nvml_code=raw.nvml_code,
        xid=raw.xid,
        node=text(raw.node),
        uuid=text(raw.uuid),
        pci=text(raw.pci),
        value=text(raw.value),
        limit=text(raw.limit),
        reason=text(raw.reason),
        action=text(raw.action),
        source=text(info.source),
    )


def kernel_log(keep: Keeper, content: str | None) -> CData:
    """``struct gs_xidlog *`` of a log's text; NULL if it could not be read."""
    if content is None:
        return ffi.NULL
    log = keep.new("struct gs_xidlog *")
    raw = content.encode(errors="surrogateescape")
    lib.gs_xidlog_init(log)
    lib.gs_xidlog_add(log, raw, len(raw))
    return log


def judge(
    sample: Sample,
    context: Context,
    policy: Policy | None = None,
    before: Verdict | None = None,
) -> Verdict:
    """Judge a node's GPUs; ``before`` is the verdict on the sample before this one."""
    keep = Keeper()
    chosen = policy or Policy()
    made = keep.new("struct gs_gpucontext *")
    lib.gs_gpucontext_init(made, chosen.c)
    for name in ("expected", "root", "in_container", "idle", "epilog", "lasting"):
        setattr(made, name, getattr(context, name))
    made.boot_us = context.boot_us
    made.step_gpus = keep.strings(context.step_gpus)
    made.step_gpu_count = len(context.step_gpus)
    made.foreign = keep.new("uint32_t[]", list(context.foreign))
    made.foreign_count = len(context.foreign)
    made.xids = kernel_log(keep, context.kernel_log)
    verdict = ffi.new("struct gs_gpuverdict *")
    earlier = before.c if before else ffi.NULL
    if lib.gs_gpurule_judge(sample.c, made, earlier, verdict) < 0:
        raise MemoryError
    return Verdict(verdict)


def compare(nodes: Mapping[str, Sample], policy: Policy | None = None) -> Verdict:
    """Name the GPUs of a job that differ from the others."""
    keep = Keeper()
    chosen = policy or Policy()
    rows = keep.new("struct gs_gpunode[]", len(nodes))
    for row, (name, sample) in zip(rows, nodes.items(), strict=True):
        row.name, row.gpus = keep.string(name), sample.c
    verdict = ffi.new("struct gs_gpuverdict *")
    if lib.gs_gpurule_odd(rows, len(nodes), chosen.c, verdict) < 0:
        raise MemoryError
    return Verdict(verdict)
