"""NVML readings: what the core samples is what NVIDIA's own binding reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from core.c import ffi, lib, text
from nvml.fakenvml import healthy
from nvml.readings import NAMES, TEXTS, gpus_of, sample

if TYPE_CHECKING:
    from nvml.conftest import NodeMaker
    from nvml.fakenvml import Node

NOT_SUPPORTED = "NVML_ERROR_NOT_SUPPORTED"
# A call, a reading it is for.
CALLS = {
    "nvmlDeviceGetFieldValues": "recovery_action",
    "nvmlDeviceGetEccMode": "ecc_mode",
    "nvmlDeviceGetTotalEccErrors": "ecc_unc_volatile",
    "nvmlDeviceGetMemoryErrorCounter": "sram_unc_volatile",
    "nvmlDeviceGetSramEccErrorStatus": "sram_threshold",
    "nvmlDeviceGetRemappedRows": "remap_failed",
    "nvmlDeviceGetUnrepairableMemoryFlag_v1": "unrepairable",
    "nvmlDeviceGetRetiredPagesPendingStatus": "retired_pending",
    "nvmlDeviceGetTemperatureV": "temperature",
    "nvmlDeviceGetTemperatureThreshold": "temperature_slowdown",
    "nvmlDeviceGetMarginTemperature": "temperature_margin",
    "nvmlDeviceGetRowRemapperHistogram": "remap_banks_empty",
    "nvmlDeviceGetP2PStatus": "p2p_broken",
    "nvmlDeviceGetNvLinkRemoteDeviceType": "p2p_broken",
    "nvmlDeviceGetCurrentClocksEventReasons": "clock_reasons",
    "nvmlDeviceGetClockInfo": "clock_sm",
    "nvmlDeviceGetMaxClockInfo": "clock_sm_max",
    "nvmlDeviceGetPowerUsage": "power",
    "nvmlDeviceGetEnforcedPowerLimit": "power_limit",
    "nvmlDeviceGetPowerManagementDefaultLimit": "power_default",
    "nvmlDeviceGetCurrPcieLinkWidth": "pcie_width",
    "nvmlDeviceGetMaxPcieLinkWidth": "pcie_width_max",
    "nvmlDeviceGetCurrPcieLinkGeneration": "pcie_gen",
    "nvmlDeviceGetMaxPcieLinkGeneration": "pcie_gen_max",
    "nvmlDeviceGetPcieReplayCounter": "pcie_replays",
    "nvmlDeviceGetNvLinkState": "nvlink_active",
    "nvmlDeviceGetGpuFabricInfoV": "fabric_state",
    "nvmlDeviceGetUtilizationRates": "utilization",
    "nvmlDeviceGetMemoryInfo_v2": "memory_used",
    "nvmlDeviceGetMigMode": "mig_mode",
    "nvmlDeviceGetComputeMode": "compute_mode",
    "nvmlDeviceGetPersistenceMode": "persistence",
    "nvmlDeviceGetVirtualizationMode": "virtualization",
    "nvmlDeviceGetMinorNumber": "minor",
    "nvmlDeviceGetNumaNodeId": "numa_memory",
    "nvmlDeviceValidateInforom": "inforom",
}


def oracle(node: Node) -> list[dict[str, Any]]:
    """What NVIDIA's binding reads over the same library."""
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    folder = str(node.library.parent)
    env = os.environ | {"LD_LIBRARY_PATH": folder, "FAKE_NVML": str(node.state)}
    script = __file__.replace("test_nvml.py", "oracle.py")
    ran = subprocess.run(
        [sys.executable, script],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    read: list[dict[str, Any]] = json.loads(ran.stdout)
    return read


def mine(node: Node) -> list[dict[str, Any]]:
    """The same from the core, but for the InfoROM: that is a call without a value."""
    return [
        {k: v for k, v in gpu.readings.items() if k != "inforom"}
        | {k: gpu.texts[k] for k in TEXTS}
        | {"fabric_clique": gpu.clique}
        for gpu in gpus_of(sample(node))
    ]


def compared(node: Node) -> list[dict[str, Any]]:
    """What the oracle read, after the core was found to have read the same."""
    theirs = oracle(node)
    own = mine(node)

    assert len(own) == len(theirs) == 2
    for gpu, other in zip(own, theirs, strict=True):
        assert {k: v for k, v in gpu.items() if other.get(k) != v} == {}
    return theirs


def test_every_reading_of_a_gpu_is_what_nvidias_binding_reads(node: Node) -> None:
    theirs = compared(node)

    # Nothing was equal only because neither could read it.
    assert [k for gpu in theirs for k, v in gpu.items() if v == NOT_SUPPORTED] == []
    assert set(NAMES) - set(theirs[0]) == {"inforom"}


def test_what_a_gpu_does_not_support_reads_so_in_both(node: Node) -> None:
    node.gpus[1] = {k: healthy(0xDB)[k] for k in ("uuid", "pci", "field.91")} | {
        "field.91": "1:0",
        "processes": "",
    }
    node.write()
    own = gpus_of(sample(node))[1]
    readable = {"nvlink_count": 0, "nvlink_active": 0}

    # Without a link up there is nothing to ask about peers.
    unread = dict.fromkeys(("inforom", "p2p_broken"), "not asked")
    assert own.readings == dict.fromkeys(NAMES, NOT_SUPPORTED) | readable | unread
    assert own.texts == dict.fromkeys(TEXTS, "") | {
        "uuid": "GPU-0000db-aaaa",
        "pci": "0000:db:00.0",
    }
    assert (own.process_code, own.processes) == (0, {})


@pytest.mark.parametrize("code", [15, 4, 77])
@pytest.mark.parametrize(("call", "reading"), CALLS.items())
def test_an_error_of_a_call_is_its_readings_code_and_no_value(
    node: Node, call: str, reading: str, code: int
) -> None:
    node.gpus[1][call] = code
    node.write()
    raw = sample(node, inforom=True)
    good, bad = gpus_of(raw)
    value = raw.gpus[1].values[NAMES.index(reading)]

    assert (value.code, value.value) == (code, 0)
    assert isinstance(good.readings[reading], int)
    assert bad.texts["pci"] == "0000:db:00.0"


@pytest.mark.parametrize(
    ("answer", "value"),
    [(0, 1), (14, 0), (3, NOT_SUPPORTED), (4, "NVML_ERROR_NO_PERMISSION")],
)
def test_a_corrupted_inforom_is_an_answer(
    node: Node, answer: int, value: int | str
) -> None:
    node.gpus[0]["nvmlDeviceValidateInforom"] = answer
    node.write()

    assert gpus_of(sample(node, inforom=True))[0].readings["inforom"] == value


def test_processes_of_all_three_lists_are_told_once(node: Node) -> None:
    gpu = gpus_of(sample(node))[0]

    assert gpu.processes == {4711: 1048576, 4712: None, 4713: 5}
    theirs = oracle(node)[0]["compute_processes"]
    assert theirs == {"4711": 1048576, "4712": None}


@pytest.mark.parametrize("suffix", ["_v3", "_v2", ""])
def test_process_lists_of_old_drivers_are_read(
    make_node: NodeMaker, suffix: str
) -> None:
    call = "nvmlDeviceGetComputeRunningProcesses"
    newer = [f"{call}{s}" for s in ("_v3", "_v2", "") if s > suffix]
    node = make_node(*newer)

    assert gpus_of(sample(node))[0].processes.keys() >= {4711, 4712}


def test_more_processes_than_fit_are_counted(node: Node) -> None:
    node.gpus[0] |= {"processes": " ".join(f"{pid}:1" for pid in range(1000, 1070))}
    node.write()
    gpu = gpus_of(sample(node))[0]

    assert gpu.process_code == 0
    assert list(gpu.processes) == list(range(1000, 1064))
    assert gpu.process_total == 72  # with those of the other two lists


@pytest.mark.parametrize("code", [4, 15, 999])
def test_a_process_list_that_cannot_be_read_is_no_empty_one(
    node: Node, code: int
) -> None:
    node.gpus[0]["nvmlDeviceGetMPSComputeRunningProcesses_v3"] = code
    node.write()

    assert [gpu.process_code for gpu in gpus_of(sample(node))] == [code, 0]


def test_a_gpu_that_vanishes_between_two_samples_is_lost(node: Node) -> None:
    assert [gpu.code for gpu in gpus_of(sample(node))] == [0, 0]
    node.gpus[1]["vanished"] = 15
    node.write()
    first, second = gpus_of(sample(node))

    assert (first.code, second.code) == (0, 15)
    # Which one it is, since NVML has as many as the bus.
    assert second.texts["pci"] == "0000:db:00.0"
    assert set(second.readings.values()) == {"not asked"}


def test_a_gpu_that_left_the_bus_leaves_no_address_to_blame(node: Node) -> None:
    node.device("0000:3b:00.0")
    node.gpus[1]["vanished"] = 999
    node.write()
    raw = sample(node)

    assert (raw.pci_count, raw.told, raw.count) == (3, 2, 2)
    assert gpus_of(raw)[1].texts["pci"] == ""


def test_bytes_in_names_cannot_reach_a_terminal(node: Node) -> None:
    node.gpus[0] |= {"name": r"H\x1b[31m\xff200\x0a", "vbios": "x" * 95}
    node.write()
    gpu = gpus_of(sample(node))[0]

    assert gpu.texts["name"] == "H?[31m?200?"
    assert gpu.texts["vbios"] == "x" * 95


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("0:7", 7),
        ("1:4294967295", 4294967295),
        ("2:5000000000", 5000000000),
        ("3:18446744073709551615", 2**64 - 1),
        ("4:-3", 0),
        ("5:-3", 0),
        ("5:3", 3),
        ("6:65535", 65535),
        ("9:1", "NVML_ERROR_UNKNOWN"),
        ("code:15", "NVML_ERROR_GPU_IS_LOST"),
    ],
)
def test_a_field_is_read_by_its_type(node: Node, answer: str, value: int | str) -> None:
    node.gpus[0]["field.230"] = answer
    node.write()

    assert gpus_of(sample(node))[0].readings["recovery_action"] == value


def test_one_unknown_field_does_not_cost_the_others(node: Node) -> None:
    node.gpus[0]["unknown_field"] = 230
    node.write()
    gpu = gpus_of(sample(node))[0].readings

    assert gpu["recovery_action"] == "NVML_ERROR_INVALID_ARGUMENT"
    assert (gpu["retired_sbe"], gpu["temperature_memory"]) == (21, 58)


def test_code_names_and_codes_go_both_ways() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    theirs = {
        name: getattr(pynvml, name)
        for name in dir(pynvml)
        if name.startswith(("NVML_ERROR_", "NVML_SUCCESS"))
    }

    assert {name: lib.gs_gpu_code_of(name.encode()) for name in theirs} == theirs
    assert {text(lib.gs_gpu_code_name(code)) for code in theirs.values()} == set(theirs)
    assert lib.gs_gpu_code_of(b"NVML_ERROR_") == -1
    assert text(lib.gs_gpu_code_name(77)) == ""


def test_every_reading_has_a_name_of_its_own() -> None:
    assert len(set(NAMES)) == lib.GS_GPU_READINGS
    assert "" not in NAMES
    outside = ffi.cast("enum gs_gpu_reading", 1000)
    assert text(lib.gs_gpu_reading_name(outside)) == ""
    assert text(lib.gs_gpu_reading_unit(outside)) == ""
    assert text(lib.gs_gpu_reading_unit(lib.GS_GPU_POWER)) == "mW"
