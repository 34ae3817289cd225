"""The same readings by NVIDIA's own Python binding, over the same library.

Run as a program with LD_LIBRARY_PATH set to the library's folder: prints JSON, one
object per GPU, a reading as its value or the name of its error.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pynvml as n  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable

#: Whatever the binding returns, or the name of its error.
Answer: TypeAlias = Any
Handle: TypeAlias = Any
ERRORS = {getattr(n, name): name for name in dir(n) if name.startswith("NVML_ERROR_")}


def tried(ask: Callable[[], Answer]) -> Answer:
    """The answer, or its error's name."""
    try:
        return ask()
    except n.NVMLError as error:
        return ERRORS[error.value]


def part(answer: Answer, index: int) -> Answer:
    """One part of a tuple; an error is one in each part."""
    return answer if isinstance(answer, str) else answer[index]


def attribute(answer: Answer, name: str) -> Answer:
    return answer if isinstance(answer, str) else getattr(answer, name)


def field(handle: Handle, number: int, scope: int = 0) -> Answer:
    """A field's value by its type."""
    got = tried(lambda: n.nvmlDeviceGetFieldValues(handle, [(number, scope)])[0])
    if isinstance(got, str):
        return got
    if got.nvmlReturn:
        return ERRORS[got.nvmlReturn]
    member = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    return int(getattr(got.value, member[got.valueType]))


def memory(handle: Handle) -> dict[str, Any]:
    info = tried(lambda: n.nvmlDeviceGetMemoryInfo(handle, n.nvmlMemory_v2))
    if isinstance(info, str):
        return {"memory_total": info, "memory_used": info}
    used = info.total - info.free - info.reserved
    return {"memory_total": info.total, "memory_used": used}


def fabric(handle: Handle) -> dict[str, Any]:
    info = n.c_nvmlGpuFabricInfo_v3_t()
    code = tried(lambda: n.nvmlDeviceGetGpuFabricInfoV(handle, n.byref(info)))
    if isinstance(code, str):
        return dict.fromkeys(("fabric_state", "fabric_status", "fabric_health"), code)
    raw = bytes(info.clusterUuid).hex()
    cuts = zip((0, 8, 12, 16, 20), (8, 12, 16, 20, 32), strict=True)
    return {
        # The binding's type of it is wider than NVML's one byte.
        "fabric_state": info.state & 0xFF,
        "fabric_status": info.status,
        "fabric_health": info.healthMask,
        "fabric_clique": info.cliqueId,
        "fabric_cluster": "-".join(raw[a:b] for a, b in cuts),
    }


def links(handle: Handle) -> dict[str, Any]:
    count = field(handle, n.NVML_FI_DEV_NVLINK_LINK_COUNT)
    states = [partial(n.nvmlDeviceGetNvLinkState, handle, i) for i in range(count)]
    up = [tried(state) for state in states]
    kinds = (
        n.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY,
        n.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY,
        n.NVML_FI_DEV_NVLINK_ERROR_DL_CRC,
    )
    errors = [field(handle, kind, link) for kind in kinds for link in range(count)]
    return {
        "nvlink_count": count,
        "nvlink_active": sum(up),
        "nvlink_errors": sum(errors),
    }


def c2c_down(handle: Handle) -> Answer:
    """Links to the CPU that are not up."""
    count = field(handle, n.NVML_FI_DEV_C2C_LINK_COUNT)
    if isinstance(count, str) or not count:
        return count or ERRORS[n.NVML_ERROR_NOT_SUPPORTED]
    status = n.NVML_FI_DEV_C2C_LINK_GET_STATUS
    return sum(field(handle, status, link) != 1 for link in range(count))


def p2p_broken(handle: Handle, peers: list[Handle]) -> Answer:
    """Peers that are not reached over NVLink."""
    kind = n.NVML_P2P_CAPS_INDEX_NVLINK
    states = [tried(partial(n.nvmlDeviceGetP2PStatus, handle, p, kind)) for p in peers]
    errors = [state for state in states if isinstance(state, str)]
    return errors[0] if errors else sum(s != n.NVML_P2P_STATUS_OK for s in states)


def structs(handle: Handle) -> dict[str, Any]:
    sram = n.c_nvmlEccSramErrorStatus_v1_t()
    code = tried(lambda: n.nvmlDeviceGetSramEccErrorStatus(handle, n.byref(sram)))
    rows = tried(lambda: n.nvmlDeviceGetRemappedRows(handle))
    busy = tried(lambda: n.nvmlDeviceGetUtilizationRates(handle))
    flag = tried(lambda: n.nvmlDeviceGetUnrepairableMemoryFlag_v1(handle))
    banks = tried(lambda: n.nvmlDeviceGetRowRemapperHistogram(handle))
    numa = tried(lambda: n.nvmlDeviceGetNumaNodeId(handle))
    return {
        "sram_threshold": code if isinstance(code, str) else sram.bThresholdExceeded,
        "remap_unc": part(rows, 1),
        "remap_pending": part(rows, 2),
        "remap_failed": part(rows, 3),
        "remap_banks_empty": attribute(banks, "none"),
        "c2c_down": c2c_down(handle),
        "utilization": attribute(busy, "gpu"),
        "memory_utilization": attribute(busy, "memory"),
        "unrepairable": flag,
        "numa_memory": numa if isinstance(numa, str) else int(numa >= 0),
        **memory(handle),
        **fabric(handle),
        **links(handle),
    }


def plain(h: Handle) -> dict[str, Any]:
    ecc = tried(lambda: n.nvmlDeviceGetEccMode(h))
    mig = tried(lambda: n.nvmlDeviceGetMigMode(h))
    asked: dict[str, Callable[[], Answer]] = {
        "ecc_unc_volatile": lambda: n.nvmlDeviceGetTotalEccErrors(h, 1, 0),
        "ecc_unc_aggregate": lambda: n.nvmlDeviceGetTotalEccErrors(h, 1, 1),
        "ecc_cor_volatile": lambda: n.nvmlDeviceGetTotalEccErrors(h, 0, 0),
        "sram_unc_volatile": lambda: n.nvmlDeviceGetMemoryErrorCounter(h, 1, 0, 7),
        "retired_pending": lambda: n.nvmlDeviceGetRetiredPagesPendingStatus(h),
        "temperature": lambda: n.nvmlDeviceGetTemperatureV(h, 0),
        "temperature_slowdown": lambda: n.nvmlDeviceGetTemperatureThreshold(h, 1),
        "temperature_margin": lambda: n.nvmlDeviceGetMarginTemperature(h),
        "temperature_memory_max": lambda: n.nvmlDeviceGetTemperatureThreshold(h, 2),
        "clock_reasons": lambda: n.nvmlDeviceGetCurrentClocksEventReasons(h),
        "clock_sm": lambda: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM),
        "clock_sm_max": lambda: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM),
        "power": lambda: n.nvmlDeviceGetPowerUsage(h),
        "power_limit": lambda: n.nvmlDeviceGetEnforcedPowerLimit(h),
        "power_default": lambda: n.nvmlDeviceGetPowerManagementDefaultLimit(h),
        "pcie_width": lambda: n.nvmlDeviceGetCurrPcieLinkWidth(h),
        "pcie_width_max": lambda: n.nvmlDeviceGetMaxPcieLinkWidth(h),
        "pcie_gen": lambda: n.nvmlDeviceGetCurrPcieLinkGeneration(h),
        "pcie_gen_max": lambda: n.nvmlDeviceGetMaxPcieLinkGeneration(h),
        "pcie_replays": lambda: n.nvmlDeviceGetPcieReplayCounter(h),
        "compute_mode": lambda: n.nvmlDeviceGetComputeMode(h),
        "persistence": lambda: n.nvmlDeviceGetPersistenceMode(h),
        "virtualization": lambda: n.nvmlDeviceGetVirtualizationMode(h),
        "minor": lambda: n.nvmlDeviceGetMinorNumber(h),
        "uuid": lambda: n.nvmlDeviceGetUUID(h),
        "name": lambda: n.nvmlDeviceGetName(h),
        "vbios": lambda: n.nvmlDeviceGetVbiosVersion(h),
        "serial": lambda: n.nvmlDeviceGetSerial(h),
        "pci": lambda: n.nvmlDeviceGetPciInfo(h).busId.lower()[4:],
    }
    return {
        "recovery_action": field(h, n.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION),
        "retired_sbe": field(h, n.NVML_FI_DEV_RETIRED_SBE),
        "retired_dbe": field(h, n.NVML_FI_DEV_RETIRED_DBE),
        "temperature_memory": field(h, n.NVML_FI_DEV_MEMORY_TEMP),
        "ecc_mode": part(ecc, 0),
        "ecc_mode_pending": part(ecc, 1),
        "mig_mode": part(mig, 0),
        "mig_mode_pending": part(mig, 1),
        **{name: tried(ask) for name, ask in asked.items()},
    }


def main() -> None:
    n.nvmlInit()
    gpus = []
    indices = range(n.nvmlDeviceGetCount())
    handles = [n.nvmlDeviceGetHandleByIndex(index) for index in indices]
    for index, handle in enumerate(handles):
        peers = handles[:index] + handles[index + 1 :]
        listed = n.nvmlDeviceGetComputeRunningProcesses(handle)
        processes = {p.pid: p.usedGpuMemory for p in listed}
        read = plain(handle) | structs(handle) | {"compute_processes": processes}
        gpus.append(read | {"p2p_broken": p2p_broken(handle, peers)})
    print(json.dumps(gpus))


if __name__ == "__main__":
    main()
