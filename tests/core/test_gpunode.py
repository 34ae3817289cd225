"""Judging what comes before any value: driver, count, lost GPUs, the kernel log."""

from __future__ import annotations

import pytest
from core.gpunode import HEALTHY, UNKNOWN, checks, judge, node, texts
from gangstart import gpu
from gangstart.gpu import NvmlError, Sample
from gangstart.gpupolicy import Policy

XID = "[{at}] NVRM: Xid (PCI:0000:02:00): {number}, pid=4711, name=python, text\n"


def log(*numbers: int, at: str = "10.5") -> str:
    return "".join(XID.format(number=n, at=at) for n in numbers)


def test_versions_that_differ_stop_new_starts() -> None:
    verdict = judge(Sample(18), expected=8)
    assert (verdict.node, checks(verdict)) == ("fail", {"driver"})
    assert "running ones are not affected" in verdict.message()


@pytest.mark.parametrize("code", [4, 17, 18, 999])
def test_a_container_without_access_is_not_a_broken_node(code: int) -> None:
    verdict = judge(Sample(code), in_container=True)
    assert (verdict.node, verdict.drain) == ("unknown", False)
    assert verdict.message() != ""


@pytest.mark.parametrize("code", [9, 12, 1000])
def test_no_driver_is_bad_only_where_gpus_are(code: int) -> None:
    assert judge(Sample(code), expected=8).node == "fail"
    assert judge(Sample(code, pci_count=1), expected=-1).node == "fail"
    assert judge(Sample(code, pci_count=0), expected=0).node == "ok"
    assert judge(Sample(code), expected=-1).node == "unknown"


def test_a_driver_that_does_not_answer_is_the_verdict() -> None:
    sample = node()
    sample.hang("nvmlDeviceGetPowerUsage", "0000:02:00.0")
    verdict = judge(sample)
    assert (verdict.node, verdict.drain) == ("fail", True)
    assert "nvmlDeviceGetPowerUsage on GPU 0000:02:00.0" in verdict.message()


def test_fewer_gpus_than_slurm_has_fail_and_more_are_noted() -> None:
    assert judge(node(2), expected=3).node == "fail"
    verdict = judge(node(2), expected=1)
    assert (verdict.node, checks(verdict, "note")) == ("ok", {"count"})


def test_gpus_that_were_not_read_any_more_are_still_there() -> None:
    sample = node(2)
    sample.c.told = 8
    sample.c.pci_count = 8
    sample.hang("nvmlDeviceGetHandleByIndex_v2", "index 2")
    assert checks(judge(sample, expected=8)) == {"hung"}


def test_a_user_sees_fewer_gpus_and_that_is_right() -> None:
    assert "count" not in checks(judge(node(2), expected=8, root=False))


def test_the_site_can_say_how_many_gpus_there_are() -> None:
    policy = Policy.parse("expected_gpus = 4\n")
    context = gpu.Context(root=True, expected=2, lasting=True)
    assert "count" in checks(gpu.judge(node(2), context, policy))


def test_a_gpu_on_the_bus_that_the_driver_has_not_is_lost() -> None:
    sample = node(2)
    sample.c.pci_count = 3
    verdict = judge(sample)
    assert checks(verdict) == {"bus"}
    assert verdict.hits()[0].code == "GPU_LOST"


def test_the_gpu_of_the_step_must_be_there() -> None:
    verdict = judge(node(2), step_gpus=["GPU-0", "GPU-9"])
    assert (verdict.step, checks(verdict)) == ("fail", {"step_gpu"})


@pytest.mark.parametrize(
    ("code", "check"),
    [(15, "lost"), (999, "lost"), (28, "lost"), (16, "reset"), (8, "handle")],
)
def test_a_gpu_that_cannot_be_opened_is_named(code: int, check: str) -> None:
    sample = node(1)
    sample.add(texts(1), {}, code=code)
    sample.c.pci_count = 2
    verdict = judge(sample)
    assert (verdict.node, checks(verdict)) == ("fail", {check})
    assert verdict.hits()[0].reason.startswith("GPU 1 (0000:02:00.0): ")


def test_a_forbidden_gpu_of_a_user_is_not_his_problem() -> None:
    sample = node(1)
    sample.add(texts(1), {}, code=4)
    assert judge(sample, root=False).node == "ok"


@pytest.mark.parametrize(("code", "check"), [(15, "lost"), (16, "reset")])
def test_one_query_is_enough_to_know_a_lost_gpu(code: int, check: str) -> None:
    verdict = judge(node(power=NvmlError(code), temperature=NvmlError(code)))
    assert checks(verdict) == {check}
    assert "power" in verdict.message()


def test_many_failed_queries_are_one_finding() -> None:
    spoiled = dict.fromkeys(HEALTHY, UNKNOWN)
    (found,) = [f for f in judge(node(spoiled=spoiled)).findings if f.check == "query"]
    assert "+" in found.value


def test_a_value_that_cannot_be_is_not_judged() -> None:
    verdict = judge(node(temperature=4294967295))
    assert (verdict.node, checks(verdict)) == ("warn", {"sane"})


def test_xids_count_as_the_catalogue_says() -> None:
    for number, wanted in ((79, "fail"), (48, "fail"), (13, "warn"), (63, "ok")):
        verdict = judge(node(), kernel_log=log(number))
        assert verdict.node == wanted, number
    (found,) = judge(node(), kernel_log=log(79)).hits()
    assert (found.gpu, found.xid) == (1, 79)
    assert found.action.startswith("reboot")


def test_an_xid_of_a_gpu_that_is_gone_still_counts() -> None:
    verdict = judge(node(1), kernel_log=log(79), expected=1)
    assert (verdict.node, verdict.hits()[0].pci) == ("fail", "0000:02:00.0")


def test_old_xids_are_history() -> None:
    sample = node()
    sample.c.taken_us = 3 * 86400 * 1_000_000
    assert judge(sample, kernel_log=log(79), boot_us=0).node == "ok"
    assert judge(
        sample, kernel_log=log(79), boot_us=2 * 86400 * 1_000_000 + 1
    ).node == ("fail")
    assert judge(sample, kernel_log=log(79)).node == "fail", "when is not known"
    absurd = log(79, at="9223372036853.5")
    assert judge(sample, kernel_log=absurd, boot_us=2**62).node == "fail"


def test_a_context_switch_timeout_is_an_accident_only_once() -> None:
    assert judge(node(), kernel_log=log(109)).node == "warn"
    assert judge(node(), kernel_log=log(109, 109)).node == "fail"


def test_fatal_faults_of_a_switch_fail() -> None:
    line = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, {}, Link 46 MC TS\n"
    assert judge(node(), kernel_log=line.format("Fatal")).node == "fail"
    assert judge(node(), kernel_log=line.format("Non-fatal")).node == "warn"


def test_a_kernel_log_that_root_cannot_read_is_not_an_empty_one() -> None:
    assert judge(node(), kernel_log=None).node == "unknown"
    assert judge(node(), kernel_log=None, root=False).node == "ok"
