"""What the core samples, as plain Python values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.c import Struct, ffi, lib, text

if TYPE_CHECKING:
    from nvml.fakenvml import Node

NAMES = [text(lib.gs_gpu_reading_name(i)) for i in range(lib.GS_GPU_READINGS)]
TEXTS = ("uuid", "pci", "name", "vbios", "serial", "fabric_cluster")


@dataclass(frozen=True)
class Gpu:
    """One GPU: a reading is a value, or the name of why there is none."""

    code: int
    texts: dict[str, str]
    clique: int
    readings: dict[str, int | str]
    process_code: int
    processes: dict[int, int | None]
    process_total: int


def why(code: int) -> str:
    """Name of a code that is not success."""
    own = {lib.GS_GPU_NOT_ASKED: "not asked", lib.GS_GPU_HUNG: "hung"}
    return own.get(code) or text(lib.gs_gpu_code_name(code)) or f"NVML_ERROR_{code}"


def gpu_of(raw: Struct) -> Gpu:
    """Python value of a struct gs_gpu."""
    values = zip(NAMES, raw.values, strict=True)
    listed = [raw.processes[i] for i in range(raw.process_count)]
    return Gpu(
        code=raw.code,
        texts={name: text(getattr(raw, name)) for name in TEXTS},
        clique=raw.fabric_clique,
        readings={name: why(v.code) if v.code else v.value for name, v in values},
        process_code=raw.process_code,
        processes={p.pid: None if p.memory == 2**64 - 1 else p.memory for p in listed},
        process_total=raw.process_total,
    )


def gpus_of(raw: Struct) -> list[Gpu]:
    """The GPUs of a struct gs_gpus."""
    return [gpu_of(raw.gpus[i]) for i in range(raw.count)]


def sample(node: Node, *, library: str | None = None, inforom: bool = False) -> Struct:
    """Sample a node in this process; returns the struct gs_gpus."""
    keep = [ffi.new("char[]", (library or str(node.library)).encode())]
    keep.append(ffi.new("char[]", str(node.root).encode()))
    source = ffi.new("struct gs_nvml_source *")
    source.library, source.root, source.inforom = keep[0], keep[1], inforom
    progress = ffi.new("struct gs_nvml_progress *", {"out": -1})
    gpus = ffi.new("struct gs_gpus *")
    assert lib.gs_nvml_sample(source, progress, gpus) == 0
    return gpus
