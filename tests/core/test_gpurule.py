"""Judging GPUs: each check with a healthy GPU, a bad one, one that does not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from core.c import lib, text
from core.gpunode import (
    BUSY,
    HEALTHY,
    MIB,
    NOT_SUPPORTED,
    UNKNOWN,
    checks,
    judge,
    node,
    texts,
)
from gangstart import gpu
from gangstart.gpu import NvmlError, Sample
from gangstart.gpupolicy import Policy

if TYPE_CHECKING:
    from core.c import Struct

INFO = [lib.gs_check_get(c) for c in range(lib.GS_CHECKS)]
SEVERITY = {text(i.id): text(lib.gs_severity_name(i.severity)) for i in INFO}
# Check -> what spoils a healthy idle GPU for it. The first is the reading it judges.
SPOILED: dict[str, dict[str, int | NvmlError]] = {
    "recovery": {"recovery_action": 1},
    "recovery_peer": {"recovery_action": 3},
    "ecc_mode": {"ecc_mode": 0, "ecc_mode_pending": 0},
    "ecc_pending": {"ecc_mode_pending": 0},
    "ecc_unc": {"ecc_unc_volatile": 1},
    "ecc_history": {"ecc_unc_aggregate": 1},
    "sram_unc": {"sram_unc_volatile": 1},
    "sram_threshold": {"sram_threshold": 1},
    "ecc_cor": {"ecc_cor_volatile": 20_000_001},
    "ecc_cor_odd": {"ecc_cor_volatile": 1_000_001},
    "remap_failed": {"remap_failed": 1},
    "remap_pending": {"remap_pending": 1},
    "remap_rows": {"remap_unc": 512},
    "remap_banks": {"remap_banks_empty": 1},
    "unrepairable": {"unrepairable": 1},
    "retired": {"retired_sbe": 60, "retired_dbe": 3},
    "retired_dbe": {"retired_dbe": 16},
    "retired_pending": {"retired_pending": 1},
    "temp_idle": {"temperature": 61},
    "temp_hot": {"temperature": 87, "utilization": 99},
    "temp_margin": {"temperature_margin": 5},
    "temp_memory": {"temperature_memory": 96},
    "clock_hw": {"clock_reasons": 0x40},
    "clock_hw_busy": {"clock_reasons": 0x80, **BUSY},
    "clock_sw": {"clock_reasons": 0x20},
    "clock_locked": {"clock_sm": 1155, "clock_reasons": 2, **BUSY},
    "power_limit": {"power_limit": 629_000},
    "pcie_width": {"pcie_width": 8},
    "pcie_gen": {"pcie_gen_max": 6, **BUSY},
    "nvlink": {"nvlink_active": 17},
    "p2p": {"p2p_broken": 1},
    "c2c": {"c2c_down": 1},
    "fabric": {"fabric_state": 2},
    "fabric_bad": {"fabric_health": 1 << 4},
    "fabric_slow": {"fabric_health": 1},
    "memory": {"memory_used": 501 * MIB},
    "memory_held": {"memory_used": 2049 * MIB},
    "ghost": {"utilization": 100},
    "persistence": {"persistence": 0},
    "mig_pending": {"mig_mode_pending": 1},
    "compute_mode": {"compute_mode": 2},
    "exclusive": {"compute_mode": 3},
    "inforom": {"inforom": 0},
}
# Tested one by one below, in test_gpunode.py or test_gpuodd.py.
OTHERS = {
    "init", "driver", "hung", "count", "bus", "step_gpu", "sxid", "handle", "lost",
    "reset", "query", "sane", "xid", "process",
    "odd_model", "odd_driver", "odd_vbios", "odd_memory", "odd_power_limit", "odd_pcie",
    "odd_nvlink", "odd_fabric",
}  # fmt: skip
VERDICT = {"fail": "fail", "warn": "warn", "info": "ok"}


def readings(check: str) -> str:
    return next(iter(SPOILED[check]))


def test_every_check_is_tested() -> None:
    assert SPOILED.keys() | OTHERS == SEVERITY.keys()
    assert not SPOILED.keys() & OTHERS


def test_a_healthy_node_has_no_finding_at_all() -> None:
    verdict = judge(node())
    assert [f.reason for f in verdict.findings if f.kind != "skipped"] == []
    assert (verdict.node, verdict.step, verdict.drain) == ("ok", "ok", False)
    assert verdict.message() == ""


def test_a_healthy_node_at_work_has_none_either() -> None:
    busy = BUSY | {"temperature": 66, "clock_reasons": 4, "memory_used": 70000 * MIB}
    verdict = judge(node(processes=[(4711, None)], spoiled=busy), idle=False)
    assert [f.reason for f in verdict.findings if f.kind != "skipped"] == []


@pytest.mark.parametrize("check", SPOILED)
def test_a_bad_gpu_is_found_and_named(check: str) -> None:
    verdict = judge(node(spoiled=SPOILED[check]))
    kind = "note" if SEVERITY[check] == "info" else "hit"
    (found,) = [f for f in verdict.findings if f.check == check and f.kind == kind]
    assert found.verdict == VERDICT[SEVERITY[check]]
    assert (found.gpu, found.uuid, found.pci) == (1, "GPU-1", "0000:02:00.0")
    assert found.reason.startswith("GPU 1 (0000:02:00.0): ")
    assert "{" not in found.reason
    assert found.action
    assert found.source


@pytest.mark.parametrize("check", SPOILED)
def test_what_is_not_supported_is_skipped_and_said_so(check: str) -> None:
    spoiled = SPOILED[check] | {readings(check): NOT_SUPPORTED}
    verdict = judge(node(spoiled=spoiled))
    assert check not in checks(verdict) | checks(verdict, "note")
    (skipped,) = [f for f in verdict.findings if f.check == check and f.gpu == 1]
    assert skipped.verdict == "ok"
    assert "NVML_ERROR_NOT_SUPPORTED" in skipped.reason


@pytest.mark.parametrize("check", SPOILED)
def test_a_query_that_fails_is_never_a_healthy_value(check: str) -> None:
    verdict = judge(node(spoiled=SPOILED[check] | {readings(check): UNKNOWN}))
    (skipped,) = [f for f in verdict.findings if f.check == check and f.gpu == 1]
    assert (skipped.kind, "NVML_ERROR_UNKNOWN" in skipped.reason) == ("skipped", True)
    (query,) = [f for f in verdict.findings if f.check == "query"]
    assert (query.verdict, readings(check) in query.reason) == ("fail", True)
    assert verdict.node == "fail"


@pytest.mark.parametrize("check", SPOILED)
def test_a_site_can_turn_each_check_off(check: str) -> None:
    off = Policy.parse(f"{check} = off\n")
    verdict = gpu.judge(
        node(spoiled=SPOILED[check]), gpu.Context(root=True, idle=True), off
    )
    assert check not in {f.check for f in verdict.findings}


@pytest.mark.parametrize("check", [c for c in SPOILED if c != "ecc_history"])
def test_a_vgpu_is_only_noted(check: str) -> None:
    verdict = judge(node(spoiled=SPOILED[check], virtualization=2))
    assert check not in checks(verdict)


@pytest.mark.parametrize("action", [1, 2, 4, 6, 7, 99])
def test_every_recovery_of_the_gpu_itself_fails(action: int) -> None:
    assert judge(node(recovery_action=action)).node == "fail"


@pytest.mark.parametrize("action", [3, 5])
def test_a_recovery_of_others_warns(action: int) -> None:
    assert judge(node(recovery_action=action)).node == "warn"


def test_history_of_errors_is_no_fault() -> None:
    verdict = judge(node(ecc_unc_aggregate=2, remap_unc=2))
    assert (verdict.node, checks(verdict, "note")) == ("ok", {"ecc_history"})


def test_a_workstation_gpu_may_have_ecc_off() -> None:
    sample = Sample()
    sample.add(texts(0, name="NVIDIA RTX A5000"), HEALTHY | {"ecc_mode": 0})
    assert "ecc_mode" not in checks(judge(sample, expected=1))


def test_mig_leaves_nvlink_and_utilization_alone() -> None:
    mig = {"mig_mode": 1, "mig_mode_pending": 1, "nvlink_active": 0, "p2p_broken": 7}
    assert judge(node(spoiled=mig, utilization=NOT_SUPPORTED)).node == "ok"


def test_memory_that_is_also_the_hosts_is_not_left_over() -> None:
    assert judge(node(memory_used=90000 * MIB, numa_memory=1)).node == "ok"


def test_an_h100_nvl_has_twelve_links_by_design() -> None:
    sample = Sample()
    sample.add(texts(0, name="NVIDIA H100 NVL"), HEALTHY | {"nvlink_active": 12})
    assert "nvlink" not in checks(judge(sample, expected=1))


def test_an_unknown_model_is_compared_with_its_peers() -> None:
    sample = Sample(pci_count=4)
    for i, links in enumerate((6, 6, 6, 4)):
        sample.add(texts(i, name="NVIDIA X1"), HEALTHY | {"nvlink_active": links})
    verdict = judge(sample, expected=4)
    assert [f.gpu for f in verdict.findings if f.check == "nvlink"] == [3]


def test_only_processes_seen_alive_are_left_over() -> None:
    sample = node(processes=[(4711, 9), (32512, None)])
    verdict = judge(sample, foreign=[4711])
    (found,) = [f for f in verdict.findings if f.check == "process"]
    assert (found.value, found.verdict) == ("4711", "fail")
    assert "process" not in checks(judge(sample))
    assert "process" not in checks(judge(sample, foreign=[4711], idle=False))


def test_an_unreadable_process_list_is_no_empty_one() -> None:
    verdict = judge(node(processes=UNKNOWN, memory_used=3000 * MIB), foreign=[1])
    assert "query" in checks(verdict)
    assert not checks(verdict) & {"process", "memory_held", "ghost"}


def test_one_look_is_not_enough_for_what_flickers() -> None:
    sample = node(clock_reasons=0x40)
    first = judge(sample, lasting=False)
    assert (first.node, first.hits()[0].settled, first.drain) == ("warn", False, False)
    assert first.look_again_us > 0


def test_what_lasts_fails_in_the_end() -> None:
    sample = node(clock_reasons=0x40)
    verdict, looks = judge(sample, lasting=False), 1
    while verdict.look_again_us >= 0 and looks < 100:
        sample.c.taken_us = verdict.look_again_us
        context = gpu.Context(root=True, idle=True, kernel_log="", expected=2)
        verdict = gpu.judge(sample, context, before=verdict)
        looks += 1
    assert (verdict.node, verdict.drain) == ("fail", True)
    assert sample.c.taken_us >= 30_000_000
    assert looks >= 4


def test_what_is_seen_once_more_counts_in_full_at_once() -> None:
    first = judge(node(ecc_unc_volatile=1), lasting=False)
    assert (first.node, first.hits()[0].settled) == ("fail", False)
    assert first.look_again_us == 1_000_000


def test_a_reset_is_asked_for_where_it_costs_no_job() -> None:
    sample = node(remap_pending=1)
    assert not judge(sample).drain
    assert judge(sample, epilog=True).drain


def test_a_user_never_drains_a_node() -> None:
    assert not judge(node(ecc_unc_volatile=1), root=False).drain


def test_another_jobs_gpu_does_not_refuse_the_step() -> None:
    verdict = judge(node(ecc_unc_volatile=1), step_gpus=["GPU-0"])
    assert (verdict.node, verdict.step) == ("fail", "ok")
    assert judge(node(ecc_unc_volatile=1), step_gpus=["GPU-1"]).step == "fail"


def any_code(code: int, **context: Struct) -> str:
    return judge(node(power=NvmlError(code)), **context).node


@pytest.mark.parametrize(
    ("code", "host", "container"),
    [
        (3, "ok", "ok"),
        (4, "fail", "ok"),
        (8, "fail", "fail"),
        (13, "ok", "ok"),
        (14, "warn", "warn"),
        (15, "fail", "fail"),
        (16, "fail", "fail"),
        (17, "fail", "ok"),
        (20, "warn", "warn"),
        (21, "warn", "warn"),
        (25, "ok", "ok"),
        (999, "fail", "unknown"),
        (777, "unknown", "unknown"),
    ],
)
def test_a_code_means_what_it_means_where_it_is_asked(
    code: int, host: str, container: str
) -> None:
    assert any_code(code) == host
    assert any_code(code, in_container=True) == container


def test_names_of_codes_and_readings_go_both_ways() -> None:
    for code in [*range(31), 999]:
        assert lib.gs_gpu_code_of(lib.gs_gpu_code_name(code)) == code
    assert lib.gs_gpu_code_of(b"NVML_ERROR_BAD_WEATHER") == -1
    assert text(lib.gs_gpu_code_name(31)) == ""
    assert len(gpu.READINGS) == lib.GS_GPU_READINGS
    assert "" not in gpu.READINGS
