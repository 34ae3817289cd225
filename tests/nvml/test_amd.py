"""AMD's GPUs from a /sys of our own making."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from core.c import Struct, ffi, lib, text
from nvml.readings import gpus_of

if TYPE_CHECKING:
    from pathlib import Path

    from nvml.fakenvml import Node

NOT_SUPPORTED = "NVML_ERROR_NOT_SUPPORTED"
PCI = "0000:c1:00.0"
FILES = {
    "unique_id": "8f3a1c2b4d5e6f70",
    "product_name": "AMD Instinct MI300X",
    "vbios_version": "113-M3000100-102",
    "serial_number": "692251001234",
    "gpu_busy_percent": "97",
    "mem_busy_percent": "41",
    "mem_info_vram_total": "206141652992",
    "mem_info_vram_used": "297852928",
    "current_link_width": "8",
    "max_link_width": "16",
    "current_link_speed": "16.0 GT/s PCIe",
    "max_link_speed": "32.0 GT/s PCIe",
    "pcie_replay_count": "3",
    "hwmon/hwmon4/temp2_input": "45000",
    "hwmon/hwmon4/temp2_crit": "100000",
    "hwmon/hwmon4/temp3_input": "39000",
    "hwmon/hwmon4/power1_input": "132000000",
    "hwmon/hwmon4/power1_cap": "650000000",
    "hwmon/hwmon4/power1_cap_default": "750000000",
    "hwmon/hwmon4/freq1_input": "132000000",
    "ras/umc_err_count": "ue: 2\nce: 30",
    "ras/gfx_err_count": "ue: 1\nce: 4",
    "ras/features": "feature mask: 0x5fd",
    "ras/gpu_vram_bad_pages": "0x1 : 0x1000 : R\n0x2 : 0x1000 : F\n0x3 : 0x1000 : P",
}
READ = {
    "utilization": 97,
    "memory_utilization": 41,
    "memory_total": 206141652992,
    "memory_used": 297852928,
    "pcie_width": 8,
    "pcie_width_max": 16,
    "pcie_gen": 4,
    "pcie_gen_max": 5,
    "pcie_replays": 3,
    "temperature": 45,
    "temperature_slowdown": 100,
    "temperature_memory": 39,
    "power": 132000,
    "power_limit": 650000,
    "power_default": 750000,
    "clock_sm": 132,
    "ecc_unc_volatile": 3,
    "ecc_cor_volatile": 34,
    "retired_dbe": 2,
    "retired_pending": 1,
}


@pytest.fixture
def amd(node: Node) -> Node:
    """A node with one MI300X, and one more that the driver has not bound."""
    for path in (node.root / "sys/bus/pci/devices").iterdir():
        node.put(f"/sys/bus/pci/devices/{path.name}/vendor", "0x8086")
    (node.root / "sys/module/nvidia/initstate").unlink()
    node.put("/sys/module/amdgpu/initstate", "live")
    node.put("/sys/module/amdgpu/version", "6.8.5")
    for pci in (PCI, "0000:c2:00.0"):
        node.device(pci, vendor="0x1002", kind="0x120000")
    for name, value in FILES.items():
        node.put(f"/sys/bus/pci/devices/{PCI}/{name}", value)
    kfd = "/sys/class/kfd/kfd"
    cpu = "simd_count 0\ndomain 0\nlocation_id 0"
    node.put(f"{kfd}/topology/nodes/0/properties", cpu)
    gpu = "cpu_cores_count 0\nsimd_count 1216\ndomain 0\nlocation_id 49408"
    node.put(f"{kfd}/topology/nodes/1/properties", gpu)
    node.put(f"{kfd}/topology/nodes/1/gpu_id", "28851")
    node.put(f"{kfd}/proc/4711/vram_28851", "1048576")
    node.put(f"{kfd}/proc/4712/vram_28851", "0")
    node.put(f"{kfd}/proc/4713/vram_1", "5")
    return node


def sampled(node: Node) -> Struct:
    gpus = ffi.new("struct gs_gpus *")
    progress = ffi.new("struct gs_nvml_progress *", {"out": -1})
    root = ffi.new("char[]", str(node.root).encode())
    assert lib.gs_amd_sample(root, progress, gpus) == 0
    return gpus


def test_every_file_becomes_its_reading(amd: Node) -> None:
    raw = sampled(amd)
    gpu = gpus_of(raw)[0]

    assert {k: v for k, v in gpu.readings.items() if isinstance(v, int)} == READ
    assert gpu.texts | {"fabric_cluster": ""} == {
        "uuid": "8f3a1c2b4d5e6f70",
        "pci": PCI,
        "name": "AMD Instinct MI300X",
        "vbios": "113-M3000100-102",
        "serial": "692251001234",
        "fabric_cluster": "",
    }
    assert (gpu.process_code, gpu.processes) == (0, {4711: 1048576})
    assert (text(raw.vendor), text(raw.driver)) == ("amd", "6.8.5")


def test_a_gpu_without_its_driver_is_there_but_not_readable(amd: Node) -> None:
    raw = sampled(amd)

    assert (raw.pci_count, raw.told, raw.count) == (2, 2, 2)
    assert text(lib.gs_gpu_code_name(gpus_of(raw)[1].code)) == NOT_SUPPORTED


def test_files_that_are_not_there_are_not_supported(amd: Node) -> None:
    device = amd.root / "sys/bus/pci/devices" / PCI
    for name in FILES:
        if name != "mem_info_vram_total":
            (device / name).unlink()
    gpu = gpus_of(sampled(amd))[0]
    rest = {k: v for k, v in gpu.readings.items() if k in READ}

    assert rest == dict.fromkeys(READ, NOT_SUPPORTED) | {"memory_total": 206141652992}


def test_nonsense_in_a_file_is_no_value(amd: Node) -> None:
    device = f"/sys/bus/pci/devices/{PCI}"
    amd.put(f"{device}/gpu_busy_percent", "busy")
    amd.put(f"{device}/current_link_speed", "Unknown")
    amd.put(f"{device}/max_link_speed", "9.0 GT/s PCIe")
    amd.put(f"{device}/ras/umc_err_count", "ue 2")
    amd.put(f"{device}/hwmon/hwmon4/temp2_input", "-3000")
    gpu = gpus_of(sampled(amd))[0].readings

    bad = ("utilization", "pcie_gen", "pcie_gen_max", "ecc_unc_volatile")
    assert {gpu[name] for name in bad} == {"NVML_ERROR_UNKNOWN"}
    assert gpu["temperature"] == 0


def test_a_folder_where_a_file_should_be_is_no_value(amd: Node) -> None:
    device = amd.root / "sys/bus/pci/devices" / PCI
    (device / "gpu_busy_percent").unlink()
    (device / "gpu_busy_percent").mkdir()

    assert gpus_of(sampled(amd))[0].readings["utilization"] == "NVML_ERROR_UNKNOWN"


def test_without_the_driver_nothing_is_asked(amd: Node) -> None:
    (amd.root / "sys/module/amdgpu/initstate").unlink()
    raw = sampled(amd)

    assert (raw.init_code, raw.told) == (lib.GS_GPU_NOT_ASKED, 0)
    assert raw.pci_count == 2


def probed(program: Path, node: Node) -> list[dict[str, Any]]:
    command = [str(program), f"--sysfs={node.root}", f"--lock={node.folder}/lock"]
    library = f"--library={node.library}"
    out = subprocess.run(
        [*command, library], stdout=subprocess.PIPE, timeout=60, check=True
    ).stdout
    return [json.loads(line) for line in out.splitlines()]


def test_the_program_prints_amds_gpus(program: Path, amd: Node) -> None:
    first, second, last, _ = probed(program, amd)

    assert first["gpu"]["readings"]["power"] == 132000
    assert second["gpu"]["code"] == NOT_SUPPORTED
    assert last["node"]["vendor"] == "amd"


def test_nvidias_gpus_count_where_there_are_both(program: Path, amd: Node) -> None:
    amd.driver()

    assert probed(program, amd)[-2]["node"]["vendor"] == "nvidia"
