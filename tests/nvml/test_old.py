"""NVML of other driver versions, none at all, and the real one without a driver."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from core.c import ffi, lib, text
from nvml.readings import gpus_of, sample

if TYPE_CHECKING:
    from nvml.conftest import NodeMaker
    from nvml.fakenvml import Node

NO_CALL = "NVML_ERROR_FUNCTION_NOT_FOUND"
NOT_SUPPORTED = "NVML_ERROR_NOT_SUPPORTED"
CLUSTER = "10111213-1415-1617-1819-1a1b1c1d1e1f"
CALLED = Path("/dev/nvidiactl")


def real_library() -> str:
    """The installed libnvidia-ml.so.1; skips where there is none."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        pytest.skip(f"{error} (Debian: libnvidia-ml1 of section non-free)")
    return "libnvidia-ml.so.1"


def test_a_library_without_a_call_costs_that_reading_only(
    make_node: NodeMaker,
) -> None:
    gone = ("nvmlDeviceGetUnrepairableMemoryFlag_v1", "nvmlDeviceGetNumaNodeId")
    gpu = gpus_of(sample(make_node(*gone)))[0].readings

    assert {k for k, v in gpu.items() if v == NO_CALL} == {
        "unrepairable",
        "numa_memory",
    }


def test_older_names_of_calls_are_tried(make_node: NodeMaker) -> None:
    node = make_node(
        "nvmlInit_v2",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetTemperatureV",
    )
    gpu = gpus_of(sample(node))[0]

    assert gpu.texts["pci"] == "0000:1a:00.0"
    assert gpu.readings["clock_reasons"] == (1 << 33) + 0x44
    assert gpu.readings["temperature"] == 41


@pytest.mark.parametrize("code", [13, 25])
def test_memory_of_an_old_driver_is_what_it_calls_used(node: Node, code: int) -> None:
    node.gpus[0]["nvmlDeviceGetMemoryInfo_v2"] = code
    node.write()
    old, new = (gpu.readings for gpu in gpus_of(sample(node)))

    assert old["memory_used"] == node.gpus[0]["memory.used"]
    assert new["memory_used"] == (41 << 30) - (700 << 20)
    assert old["memory_total"] == new["memory_total"]


@pytest.mark.parametrize(
    ("newest", "health"), [(3, 0x1A5), (2, 0x1A5), (1, NOT_SUPPORTED)]
)
def test_every_version_of_the_fabrics_struct_is_read(
    node: Node, newest: int, health: int | str
) -> None:
    node.gpus[0]["fabric_version"] = newest
    node.write()
    gpu = gpus_of(sample(node))[0]

    assert gpu.texts["fabric_cluster"] == CLUSTER
    assert gpu.clique == 32766
    assert gpu.readings["fabric_state"] == 3
    assert gpu.readings["fabric_status"] == 18
    assert gpu.readings["fabric_health"] == health


def test_links_are_counted_one_by_one_where_there_is_no_count(node: Node) -> None:
    # Wired are 18; beyond them there are none, and 5 is down.
    del node.gpus[0]["field.91"]
    node.write()
    gpu = gpus_of(sample(node))[0].readings

    assert (gpu["nvlink_count"], gpu["nvlink_active"]) == (18, 17)


@pytest.mark.parametrize(
    ("answers", "total"),
    [
        ({f"field.{k}.{i}": "3:1" for k in (208, 215) for i in range(18)}, 36),
        ({f"nvlink_error.{i}.{k}": 2 for k in range(4) for i in range(18)}, 144),
        ({}, NOT_SUPPORTED),
    ],
)
def test_link_errors_of_every_generation_are_summed(
    node: Node, answers: dict[str, object], total: int | str
) -> None:
    hopper = ("field.161", "field.162", "field.163")
    others = {k: v for k, v in node.gpus[0].items() if not k.startswith(hopper)}
    node.gpus[0] = others | answers
    node.write()

    assert gpus_of(sample(node))[0].readings["nvlink_errors"] == total


def test_a_link_that_does_not_answer_is_no_link_that_is_down(node: Node) -> None:
    node.gpus[0]["nvmlDeviceGetNvLinkState"] = 15
    node.write()
    gpu = gpus_of(sample(node))[0].readings

    assert gpu["nvlink_active"] == "NVML_ERROR_GPU_IS_LOST"


@pytest.mark.parametrize("code", [4, 9, 18, 999])
def test_a_failed_init_is_told_and_nothing_else_asked(node: Node, code: int) -> None:
    node.node["nvmlInit_v2"] = code
    node.write()
    raw = sample(node)

    assert (raw.init_code, raw.count) == (code, 0)
    assert raw.count_code == lib.GS_GPU_NOT_ASKED
    assert raw.pci_count == 2


def test_a_count_that_fails_is_told(node: Node) -> None:
    node.node["nvmlDeviceGetCount_v2"] = 999
    node.write()
    raw = sample(node)

    assert (raw.init_code, raw.count_code, raw.count) == (0, 999, 0)
    assert text(raw.driver) == "570.124.06"


def test_more_gpus_than_fit_are_told(node: Node) -> None:
    node.node["count"] = 100
    node.write()
    raw = sample(node)

    assert (raw.told, raw.count) == (100, 64)


def test_no_library_is_a_code(node: Node) -> None:
    raw = sample(node, library=str(node.folder / "nothing.so"))

    assert text(lib.gs_gpu_code_name(raw.init_code)) == "NVML_ERROR_LIBRARY_NOT_FOUND"
    assert raw.driver_loaded


def test_a_library_that_is_not_nvml_is_a_code(node: Node) -> None:
    raw = sample(node, library="libc.so.6")

    assert text(lib.gs_gpu_code_name(raw.init_code)) == NO_CALL


def test_a_driver_that_is_loading_or_absent_is_not_asked(node: Node) -> None:
    state = "/sys/module/nvidia/initstate"
    node.put(state, "coming")
    coming = sample(node, library=str(node.folder / "nothing.so"))
    assert coming.init_code == lib.GS_GPU_NOT_ASKED
    assert not coming.driver_loaded
    assert coming.pci_count == 2

    node.put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX")
    assert sample(node).count == 2


def test_without_a_bus_the_number_of_devices_is_unknown(node: Node) -> None:
    (node.root / "sys/bus").rename(node.root / "gone")

    assert sample(node).pci_count == -1


def test_other_devices_on_the_bus_do_not_count(node: Node) -> None:
    node.device("0000:02:00.0", vendor="0x1002")
    node.device("0000:03:00.0", kind="0x020000")
    node.device("10000:04:00.0")

    assert sample(node).pci_count == 3


def test_progress_names_the_last_query_and_counts_them(node: Node) -> None:
    keep = [ffi.new("char[]", str(p).encode()) for p in (node.library, node.root)]
    source = ffi.new("struct gs_nvml_source *", {"library": keep[0], "root": keep[1]})
    progress = ffi.new("struct gs_nvml_progress *", {"out": -1})
    gpus = ffi.new("struct gs_gpus *")
    opened = ffi.new("struct gs_nvml **")

    assert lib.gs_nvml_open(source, progress, gpus, opened) == 0
    assert text(progress.call) == "nvmlDeviceGetCount_v2"
    before = progress.queries
    lib.gs_nvml_read(opened[0], 1, gpus)
    assert text(progress.call) == "nvmlDeviceGetMPSComputeRunningProcesses_v3"
    assert text(progress.gpu) == "0000:db:00.0"
    assert progress.queries > before + 30
    lib.gs_nvml_close(opened[0])
    assert text(progress.call) == "nvmlShutdown"


def test_the_real_library_is_not_even_opened_without_a_driver(node: Node) -> None:
    library = real_library()
    (node.root / "sys/module/nvidia/initstate").unlink()
    begun = time.monotonic()
    raw = sample(node, library=library)

    assert time.monotonic() - begun < 0.05
    assert raw.init_code == lib.GS_GPU_NOT_ASKED
    assert not raw.driver_loaded


def test_the_real_library_says_that_no_driver_is_loaded(node: Node) -> None:
    library = real_library()
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("a driver is loaded here")
    # As root it makes its device node even so.
    there = CALLED.exists()
    raw = sample(node, library=library)
    if not there:
        CALLED.unlink(missing_ok=True)

    assert text(lib.gs_gpu_code_name(raw.init_code)) == "NVML_ERROR_DRIVER_NOT_LOADED"
    assert raw.count == 0


def test_the_state_is_read_where_the_environment_says(node: Node) -> None:
    # The fake itself: what the binding's tests rely on.
    elsewhere = node.folder / "state.txt"
    node.state.rename(elsewhere)
    ask = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetCount())"
    folder = str(node.library.parent)
    env = os.environ | {
        "LD_LIBRARY_PATH": folder,
        "FAKE_NVML": str(elsewhere),
        "FAKE_NVML_LOG": str(node.log),
    }
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    ran = subprocess.run(
        [sys.executable, "-c", ask],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.stdout.strip() == "2", ran.stderr
    assert "nvmlDeviceGetCount_v2" in node.log.read_text().split()
