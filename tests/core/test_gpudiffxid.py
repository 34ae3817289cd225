"""Faults of the kernel log between two samples of a node."""

from __future__ import annotations

import pytest
from core.gpunode import node
from core.test_gpudiff import (
    BEGUN,
    HOUR,
    SECOND,
    after,
    at,
    before,
    closed,
    found,
    only,
)
from gangstart.gpudiff import changes

XID = "{time} node kernel: NVRM: Xid (PCI:{pci}): {number}, pid=1, name=python, text\n"
OLD, NEW = "2020-01-01T00:00:00+00:00", "2030-01-01T00:00:00+00:00"


def xid(number: int, time: str = NEW, pci: str = "0000:02:00") -> str:
    return XID.format(number=number, time=time, pci=pci)


@pytest.mark.parametrize(
    ("number", "verdict"), [(79, "fail"), (13, "warn"), (63, "ok")]
)
def test_faults_of_the_time_between_are_told(number: int, verdict: str) -> None:
    one = only(found(before(), after(), xid(number)))
    assert (one.reading, one.kind, one.verdict) == ("xid", "xid", verdict)
    assert (one.uuid, one.after) == ("GPU-1", number)
    assert f"Xid {number} (" in one.reason
    assert "during the job" in one.reason


def test_older_faults_are_not_of_the_job() -> None:
    assert found(before(), after(), xid(79, OLD)).differences == ()


def test_times_since_boot_need_the_time_of_boot() -> None:
    def told(seconds: int, boot_us: int) -> list[str]:
        log = f"[{seconds}.5] NVRM: Xid (PCI:0000:02:00): 79, pid=1, text\n"
        result = changes(before(), after(), log, boot_us=boot_us, host=True)
        return [d.verdict for d in result.differences]

    assert told(99, BEGUN - 100 * SECOND) == []
    assert told(101, BEGUN - 100 * SECOND) == ["fail"]
    assert told(9223372036853, 2**62) == ["unknown"], "no time at all"
    assert told(101, -1) == ["unknown"], "it may be from before the job"


def test_a_fault_of_a_gpu_that_is_gone_has_its_uuid() -> None:
    for second in (at(node(1), BEGUN + HOUR), closed(15)):
        result = found(before(), second, xid(79))
        assert [(d.kind, d.uuid) for d in result.differences] == [
            ("gone", "GPU-1"),
            ("xid", "GPU-1"),
        ]
    elsewhere = found(before(), after(), xid(79, pci="0000:77:00"))
    assert (only(elsewhere).pci, only(elsewhere).uuid) == ("0000:77:00.0", "")
    assert "at 0000:77:00.0" in only(elsewhere).reason


def test_a_fatal_fault_of_a_switch_is_of_the_node() -> None:
    line = f"{NEW} n nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Fatal, Link 46\n"
    one = only(found(before(), after(), line))
    assert (one.reading, one.verdict, one.pci) == ("sxid", "fail", "0000:c1:00.0")


def test_a_kernel_log_that_cannot_be_read_is_not_an_empty_one() -> None:
    assert only(found(before(), after(), None)).verdict == "unknown"
    assert only(changes(before(), after(), None)).verdict == "ok"
