"""A healthy node of GPUs for the tests of gpurule.c, and ways to spoil it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gangstart import gpu
from gangstart.gpu import Context, GpuText, NvmlError, Sample, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.c import Struct

NOT_SUPPORTED = NvmlError(3)
UNKNOWN = NvmlError(999)
MIB = 1 << 20

#: What a healthy idle H100 of an eight-way node says.
HEALTHY: dict[str, int | NvmlError] = {
    **dict.fromkeys(gpu.READINGS, 0),
    "ecc_mode": 1,
    "ecc_mode_pending": 1,
    "temperature": 34,
    "temperature_slowdown": 87,
    "temperature_memory": 45,
    "temperature_memory_max": 95,
    "temperature_margin": 50,
    "clock_reasons": 1,
    "clock_sm": 1980,
    "clock_sm_max": 1980,
    "power": 68000,
    "power_limit": 700000,
    "power_default": 700000,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "pcie_gen": 1,  # saves power while idle
    "pcie_gen_max": 5,
    "nvlink_count": 18,
    "nvlink_active": 18,
    "fabric_state": 3,
    "memory_total": 81559 * MIB,
    "memory_used": 4 * MIB,
    "persistence": 1,
    "inforom": 1,
}
BUSY: dict[str, int | NvmlError] = {"utilization": 99, "pcie_gen": 5, "power": 650000}
HOST = Context(root=True, idle=True, lasting=True, kernel_log="", expected=2)
MODEL = "NVIDIA H100 80GB HBM3"


def texts(i: int, **changed: str) -> GpuText:
    known = GpuText(f"GPU-{i}", f"0000:{i + 1:02x}:00.0", MODEL, "96.00.89", str(i))
    return replace(known, **changed)


def node(
    gpus: int = 2,
    processes: Sequence[tuple[int, int | None]] | NvmlError = (),
    spoiled: Mapping[str, int | NvmlError] | None = None,
    **more: int | NvmlError,
) -> Sample:
    """A healthy node, but its last GPU has these readings and processes."""
    sample = Sample(pci_count=gpus)
    for i in range(gpus):
        last = i == gpus - 1
        sample.add(
            texts(i),
            HEALTHY | ({**(spoiled or {}), **more} if last else {}),
            processes if last else (),
        )
    return sample


def judge(sample: Sample, **context: Struct) -> Verdict:
    return gpu.judge(sample, replace(HOST, **context))


def checks(verdict: Verdict, kind: str = "hit") -> set[str]:
    return {f.check for f in verdict.findings if f.kind == kind}
