"""Every check over the fake NVML: sound, bad, not supported, and a query that fails.

A check that is added to gpucheck.c without a row here fails the first test.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from core.c import lib, text
from nvml.fakenvml import Node, link
from nvml.sound import BUSY, Bench, Spoiled, failing, in_use

if TYPE_CHECKING:
    from pathlib import Path

    from gangstart.gpu import Finding, Verdict

NOT_SUPPORTED, UNKNOWN = 3, 999
INFO = [lib.gs_check_get(c) for c in range(lib.GS_CHECKS)]
SEVERITY = {text(i.id): text(lib.gs_severity_name(i.severity)) for i in INFO}
VERDICT = {"fail": "fail", "warn": "warn", "info": "ok"}
EVENTS = "nvmlDeviceGetCurrentClocksEventReasons"
ECC = "nvmlDeviceGetTotalEccErrors"
FABRIC = "nvmlDeviceGetGpuFabricInfoV"
MEMORY = "nvmlDeviceGetMemoryInfo_v2"
LIMITS = "nvmlDeviceGetTemperatureThreshold"


@dataclass(frozen=True)
class Row:
    """A bad answer, and where it comes from."""

    bad: dict[str, object]
    source: str
    instead: str = ""  # asked where the source is not supported
    node: dict[str, object] = field(default_factory=dict)


#: Checks of one GPU's readings.
READINGS = {
    "recovery": Row({"field.230": "1:1"}, "field.230"),
    "recovery_peer": Row({"field.230": "1:3"}, "field.230"),
    "ecc_mode": Row({"ecc": 0, "ecc.pending": 0}, "nvmlDeviceGetEccMode"),
    "ecc_pending": Row({"ecc.pending": 0}, "nvmlDeviceGetEccMode"),
    "ecc_unc": Row({"ecc_total.1.0": 1}, ECC),
    "ecc_history": Row({"ecc_total.1.1": 1}, ECC),
    "sram_unc": Row({"ecc_place.1.0.7": 1}, "nvmlDeviceGetMemoryErrorCounter"),
    "sram_threshold": Row({"sram_threshold": 1}, "nvmlDeviceGetSramEccErrorStatus"),
    "ecc_cor": Row({"ecc_total.0.0": 20_000_001}, ECC),
    "ecc_cor_odd": Row({"ecc_total.0.0": 1_000_001}, ECC),
    "remap_failed": Row({"remapped": "0 0 0 1"}, "nvmlDeviceGetRemappedRows"),
    "remap_pending": Row({"remapped": "0 0 1 0"}, "nvmlDeviceGetRemappedRows"),
    "remap_rows": Row({"remapped": "0 512 0 0"}, "nvmlDeviceGetRemappedRows"),
    "remap_banks": Row({"banks": "639 0 0 0 1"}, "nvmlDeviceGetRowRemapperHistogram"),
    "unrepairable": Row({"unrepairable": 1}, "nvmlDeviceGetUnrepairableMemoryFlag_v1"),
    "retired": Row({"field.29": "2:60", "field.30": "3:3"}, "field.29"),
    "retired_dbe": Row({"field.30": "3:16"}, "field.30"),
    "retired_pending": Row(
        {"retired_pending": 1}, "nvmlDeviceGetRetiredPagesPendingStatus"
    ),
    "temp_idle": Row({"temperature.0": 61}, "nvmlDeviceGetTemperatureV"),
    "temp_hot": Row(BUSY | {"temperature.0": 87}, LIMITS),
    "temp_margin": Row({"margin": 5}, "nvmlDeviceGetMarginTemperature", LIMITS),
    "temp_memory": Row({"field.82": "1:96"}, "field.82"),
    "clock_hw": Row({"clock_reasons": 0x40}, EVENTS),
    "clock_hw_busy": Row(BUSY | {"clock_reasons": 0x80}, EVENTS),
    "clock_sw": Row({"clock_reasons": 0x20}, EVENTS),
    "clock_locked": Row(
        BUSY | {"clock_reasons": 2, "clock.1": 1155}, "nvmlDeviceGetClockInfo"
    ),
    "power_limit": Row({"power_limit": 629_000}, "nvmlDeviceGetEnforcedPowerLimit"),
    "pcie_width": Row({"pcie_width": 8}, "nvmlDeviceGetCurrPcieLinkWidth"),
    "pcie_gen": Row(BUSY | {"pcie_gen": 4}, "nvmlDeviceGetCurrPcieLinkGeneration"),
    "nvlink": Row({"nvlink.5": 0}, "nvmlDeviceGetNvLinkState"),
    "p2p": Row({"p2p.2.0": 5}, "nvmlDeviceGetP2PStatus"),
    "c2c": Row({"field.171.2": "1:0"}, "field.170"),
    "fabric": Row({"fabric.state": 2}, FABRIC),
    "fabric_bad": Row({"fabric.health": 1 << 4}, FABRIC),
    "fabric_slow": Row({"fabric.health": 1}, FABRIC),
    "memory": Row(in_use(501), MEMORY),
    "memory_held": Row(in_use(2049), MEMORY),
    "ghost": Row({"utilization": 100}, "nvmlDeviceGetUtilizationRates"),
    "persistence": Row({"persistence": 0}, "nvmlDeviceGetPersistenceMode"),
    "mig_pending": Row({"mig.pending": 1}, "nvmlDeviceGetMigMode"),
    "compute_mode": Row({"compute_mode": 2}, "nvmlDeviceGetComputeMode"),
    "exclusive": Row({"compute_mode": 3}, "nvmlDeviceGetComputeMode"),
    "inforom": Row({"nvmlDeviceValidateInforom": 14}, "nvmlDeviceValidateInforom"),
}
#: Checks of a job's GPUs beside each other.
ODD = {
    "odd_model": Row({"name": "NVIDIA H100 80GB HBM3"}, "nvmlDeviceGetName"),
    "odd_driver": Row({}, "nvmlSystemGetDriverVersion", node={"driver": "535.183"}),
    "odd_vbios": Row({"vbios": "96.00.74"}, "nvmlDeviceGetVbiosVersion"),
    "odd_memory": Row({"memory.total": 80 << 30}, MEMORY),
    "odd_power_limit": Row({"power_limit": 650_000}, "nvmlDeviceGetEnforcedPowerLimit"),
    "odd_pcie": Row({"pcie_width": 8}, "nvmlDeviceGetCurrPcieLinkWidth"),
    "odd_nvlink": Row({"nvlink.5": 0}, "nvmlDeviceGetNvLinkState"),
    "odd_fabric": Row({"fabric.cluster": 0x20}, FABRIC),
}

XID = "NVRM: Xid (PCI:0000:db:00): 79, pid=1, name=python, text\n"
SXID = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Fatal, Link 46\n"
USER: dict[str, object] = {"root": False}
INSIDE: dict[str, object] = {"in_container": True}
NO_LOG: dict[str, object] = {"kernel_log": None}
NO_COUNT: dict[str, object] = {"nvmlDeviceGetCount_v2": UNKNOWN}
LEFT = Spoiled({"processes": "4711:9"}, context={"foreign": [4711]})
LISTED = "nvmlDeviceGetComputeRunningProcesses_v3"
OPEN = "nvmlDeviceGetHandleByIndex_v2"


def unload(node: Node) -> None:
    shutil.rmtree(node.root / "sys/module")
    shutil.rmtree(node.root / "sys/bus/pci/devices")
    (node.root / "sys/bus/pci/devices").mkdir()


def hide_bus(node: Node) -> None:
    shutil.rmtree(node.root / "sys/bus")


#: What a check of the node, or of whether a GPU answers, says: bad, not supported, a
#: query that fails. (kind, verdict) of its finding, None = it has none.
Said = tuple[str, str] | None
FAIL, SKIPPED = ("hit", "fail"), ("skipped", "ok")
NODE: dict[str, list[tuple[Spoiled, Said]]] = {
    "init": [
        (Spoiled(node={"nvmlInit_v2": UNKNOWN}), FAIL),
        (Spoiled(files=unload, context={"expected": 0}), SKIPPED),
        (Spoiled(node={"nvmlInit_v2": 4}, context=INSIDE), ("hit", "unknown")),
    ],
    "driver": [
        (Spoiled(node={"nvmlInit_v2": 18}), FAIL),
        (Spoiled(node={"nvmlInit_v2": 3}), None),
        (Spoiled(node={"nvmlInit_v2": 18}, context=INSIDE), ("hit", "unknown")),
    ],
    "hung": [
        (Spoiled({"hang": "nvmlDeviceGetEccMode"}), FAIL),
        (Spoiled({"nvmlDeviceGetEccMode": 3}), None),
        (Spoiled({"nvmlDeviceGetEccMode": UNKNOWN}), None),
    ],
    "count": [
        (Spoiled(context={"expected": 3}), FAIL),
        (Spoiled(context={"expected": -1}), None),
        (Spoiled(node=NO_COUNT, context={"expected": 3}), None),
    ],
    "bus": [
        (Spoiled(files=lambda node: node.device("0000:3b:00.0")), FAIL),
        (Spoiled(files=hide_bus), None),
        (Spoiled(node=NO_COUNT), None),
    ],
    "step_gpu": [
        (Spoiled(context={"step_gpus": ["GPU-9"]}), FAIL),
        (Spoiled(context={"step_gpus": ["GPU-0000db-aaaa"]}), None),
        (Spoiled(node=NO_COUNT, context={"step_gpus": ["GPU-9"]}), None),
    ],
    "sxid": [
        (Spoiled(context={"kernel_log": SXID}), FAIL),
        (Spoiled(context=USER | NO_LOG), None),
        (Spoiled(context=NO_LOG), None),  # "xid" says it for both
    ],
    "xid": [
        (Spoiled(context={"kernel_log": XID}), FAIL),
        (Spoiled(context=USER | NO_LOG), SKIPPED),
        (Spoiled(context=NO_LOG), ("skipped", "unknown")),
    ],
    "handle": [
        (Spoiled({OPEN: 8}), FAIL),
        (Spoiled({OPEN: NOT_SUPPORTED}), ("note", "ok")),
        (Spoiled({OPEN: UNKNOWN}, context=INSIDE), ("hit", "unknown")),
    ],
    "lost": [
        (Spoiled({"vanished": 15}), FAIL),
        (Spoiled({OPEN: NOT_SUPPORTED}), None),
        (Spoiled({OPEN: UNKNOWN}), FAIL),
    ],
    "reset": [
        (Spoiled({"nvmlDeviceGetPowerUsage": 16}), FAIL),
        (Spoiled({"nvmlDeviceGetPowerUsage": 3}), None),
        (Spoiled({OPEN: 16}), FAIL),
    ],
    "query": [
        (Spoiled({"nvmlDeviceGetPowerUsage": UNKNOWN}), FAIL),
        (Spoiled({"nvmlDeviceGetPowerUsage": 3}), None),
        (
            Spoiled({"nvmlDeviceGetPowerUsage": UNKNOWN}, context=INSIDE),
            ("hit", "unknown"),
        ),
    ],
    "sane": [
        (Spoiled({"clock.1": 99_999}), ("hit", "warn")),
        (Spoiled({"nvmlDeviceGetClockInfo": 3}), None),
        (Spoiled({"nvmlDeviceGetClockInfo": UNKNOWN}), None),
    ],
    "process": [
        (LEFT, FAIL),
        (Spoiled(LEFT.gpu | {LISTED: NOT_SUPPORTED}, context=LEFT.context), None),
        (Spoiled(LEFT.gpu | {LISTED: UNKNOWN}, context=LEFT.context), None),
    ],
}


@pytest.fixture(scope="module")
def bench(
    fake_objects: list[Path], tmp_path_factory: pytest.TempPathFactory, program: Path
) -> Bench:
    folder = tmp_path_factory.mktemp("bench")
    library = link(fake_objects, folder / "libnvidia-ml.so.1")
    return Bench(folder, library, program)


def of(verdict: Verdict, check: str) -> list[Finding]:
    return [f for f in verdict.findings if f.check == check]


def spoiled(row: Row, code: int | None = None) -> Spoiled:
    """The row's bad node, or the one whose source does not answer."""
    broken: dict[str, object] = {}
    for source in (row.source, row.instead):
        if code is not None and source:
            broken |= failing(source, code)
    of_node = row.source.startswith("nvmlSystem")
    return Spoiled(
        row.bad | ({} if of_node else broken), row.node | (broken if of_node else {})
    )


def test_every_check_has_its_row() -> None:
    assert sorted([*READINGS, *ODD, *NODE]) == sorted(SEVERITY)


@pytest.mark.parametrize("work", [{}, BUSY])
def test_sound_gpus_pass_every_check_with_nothing_left_out(
    bench: Bench, work: dict[str, object]
) -> None:
    verdict = bench.judge(Spoiled(work), idle=not work)
    assert [f.reason for f in verdict.findings] == []
    assert verdict.node == "ok"
    assert bench.compare(Spoiled(work)).findings == ()


@pytest.mark.parametrize("check", READINGS)
def test_a_bad_reading_is_found(bench: Bench, check: str) -> None:
    (found,) = of(bench.judge(spoiled(READINGS[check])), check)
    severity = SEVERITY[check]
    assert (found.kind, found.verdict) == (
        "note" if severity == "info" else "hit",
        VERDICT[severity],
    )
    assert (found.gpu, found.pci) == (1, "0000:db:00.0")


@pytest.mark.parametrize("check", READINGS)
def test_a_reading_that_is_not_supported_is_left_out(bench: Bench, check: str) -> None:
    verdict = bench.judge(spoiled(READINGS[check], NOT_SUPPORTED))
    (found,) = of(verdict, check)
    assert (found.kind, found.verdict, found.gpu) == ("skipped", "ok", 1)
    assert "NVML_ERROR_NOT_SUPPORTED" in found.reason


@pytest.mark.parametrize("check", READINGS)
def test_a_reading_that_fails_is_told_and_fails_the_node(
    bench: Bench, check: str
) -> None:
    verdict = bench.judge(spoiled(READINGS[check], UNKNOWN))
    (found,) = of(verdict, check)
    least = "ok" if SEVERITY[check] == "info" else "unknown"
    assert (found.kind, found.verdict) == ("skipped", least)
    assert "NVML_ERROR_UNKNOWN" in found.reason
    assert [f.verdict for f in of(verdict, "query")] == ["fail"]


@pytest.mark.parametrize("check", ODD)
def test_an_odd_gpu_is_found_among_its_peers(bench: Bench, check: str) -> None:
    row = ODD[check]
    (found,) = of(bench.compare(spoiled(row)), check)
    assert (found.node, found.verdict) == ("n2", VERDICT[SEVERITY[check]])


@pytest.mark.parametrize("code", [NOT_SUPPORTED, UNKNOWN])
@pytest.mark.parametrize("check", ODD)
def test_what_cannot_be_read_is_not_odd(bench: Bench, check: str, code: int) -> None:
    assert of(bench.compare(spoiled(ODD[check], code)), check) == []


@pytest.mark.parametrize("case", [0, 1, 2], ids=["bad", "unsupported", "error"])
@pytest.mark.parametrize("check", NODE)
def test_checks_of_the_node_and_of_answers(bench: Bench, check: str, case: int) -> None:
    broken, said = NODE[check][case]
    found = of(bench.judge(broken), check)
    assert [(f.kind, f.verdict) for f in found] == ([said] if said else [])
    assert case > 0 or said, "a bad node has a finding"
