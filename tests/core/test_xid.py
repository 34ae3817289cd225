"""The NVIDIA driver's lines in the kernel log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from core.c import ffi, lib, text
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from core.c import Struct

PCI = "(PCI:0000:1a:00)"


def read(line: str) -> tuple[int, Struct]:
    xid = ffi.new("struct gs_xid *")
    raw = line.encode(errors="surrogateescape")
    return lib.gs_xid_read(raw, len(raw), xid), xid


def log(*lines: str) -> Struct:
    made = ffi.new("struct gs_xidlog *")
    raw = "".join(f"{line}\n" for line in lines).encode()
    lib.gs_xidlog_init(made)
    lib.gs_xidlog_add(made, raw, len(raw))
    return made


def numbers(made: Struct) -> list[int]:
    return [made.xids[i].number for i in range(made.count)]


def xid(number: int, rest: str = "pid=1, name=a, text", pci: str = PCI) -> str:
    return f"[ 12.5] NVRM: Xid {pci}: {number}, {rest}"


@pytest.mark.parametrize(
    ("line", "number", "pid", "said"),
    [
        (f"Xid {PCI}: 79, GPU has fallen off.", 79, -1, "GPU has fallen off."),
        (f"Xid {PCI}: 79, pid='<unknown>', name=?, lost", 79, -1, "name=?, lost"),
        (
            f"Xid {PCI}: 31, pid=4711, name=py, MMU Fault",
            31,
            4711,
            "name=py, MMU Fault",
        ),
        (f"Xid {PCI}: 43, pid=4711", 43, 4711, ""),
        ("Xid (0000:1a:00): 62, 1 2 3", 62, -1, "1 2 3"),
        ("Xid (PCI:00000000:1A:00.0): 48, x\r\n", 48, -1, "x"),
    ],
)
def test_an_xid_is_read_in_all_its_forms(
    line: str, number: int, pid: int, said: str
) -> None:
    kind, found = read(f"NVRM: {line}")
    assert kind == lib.GS_KLOG_XID
    assert (found.number, found.pid, text(found.text)) == (number, pid, said)
    assert text(found.pci) == "0000:1a:00.0"
    assert found.times == 1


@pytest.mark.parametrize(
    ("head", "clock", "us"),
    [
        ("", "NONE", 0),
        ("[90210.902001] ", "BOOT", 90210902001),
        ("[   12.5] ", "BOOT", 12500000),
        ("4,1234,5678901,-;", "BOOT", 5678901),
        ("Nov 30 17:20:30 n1 kernel: [ 7.000001] ", "BOOT", 7000001),
        ("2026-11-30T17:20:30+0000 n1 kernel: ", "WALL", 1796059230000000),
        ("2026-11-30T18:20:30.25+01:00 n1 kernel: ", "WALL", 1796059230250000),
        ("2026-11-30T17:20:30Z n1 kernel: ", "WALL", 1796059230000000),
        ("Nov 30 17:20:30 n1 kernel: ", "NONE", 0),
        ("[Mon Nov 30 17:20:30 2026] ", "NONE", 0),
        ("2026-13-30T17:20:30Z ", "NONE", 0),
    ],
)
def test_the_time_is_read_where_it_is_sure(head: str, clock: str, us: int) -> None:
    _, found = read(f"{head}NVRM: Xid {PCI}: 79, text")
    assert found.clock == getattr(lib, f"GS_CLOCK_{clock}")
    assert found.time_us == us


@pytest.mark.parametrize(
    "line",
    [
        "",
        "NVRM: Xid",
        "NVRM: Xid (PCI:0000:1a:00): x",
        "NVRM: Xid (PCI:0000:1a:00): 99999999999, x",
        "NVRM: Xid (PCI:0000:1a): 79, x",
        "NVRM: Xid (PCI:0000:1a:99): 79, x",
        "NVRM: GPU at PCI:0000:1a:00: GPU-1234",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 22013, Severity 1 Engine 2",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 22013, Data {0x1}",
        "other: SXid (PCI:0000:c1:00.0): 22013, Fatal, Link 3",
    ],
)
def test_other_lines_are_left_alone(line: str) -> None:
    assert read(line)[0] == lib.GS_KLOG_OTHER


def test_a_switchs_fault_says_whether_it_is_fatal() -> None:
    line = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, {}, Link 46 MC TS"
    for word, fatal in (("Fatal", True), ("Non-fatal", False)):
        kind, found = read(line.format(word))
        assert (kind, bool(found.fatal)) == (lib.GS_KLOG_SXID, fatal)


def test_only_faults_after_the_drivers_last_load_count() -> None:
    made = log(
        xid(79), "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54", xid(13)
    )
    assert (numbers(made), made.over) == ([13], 1)
    opened = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.1"
    assert numbers(log(xid(79), opened)) == []


def test_the_drivers_word_that_all_is_well_ends_the_faults_of_that_gpu() -> None:
    other = "(PCI:0000:2a:00)"
    done = xid(
        154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    )
    made = log(xid(119), xid(79, pci=other), done)
    assert numbers(made) == [79, 154]
    assert lib.gs_xidlog_class(made, 1, False) == lib.GS_XID_IGNORE  # noqa: FBT003


@pytest.mark.parametrize(
    ("to", "wanted"),
    [
        ("0x1 (GPU Reset Required)", "RESET"),
        ("0x2 (Node Reboot Required)", "REBOOT"),
        ("0x3 (Drain P2P)", "WATCH"),
        ("0x4 (Drain and Reset)", "RESET"),
        ("0x9 (Something new)", "WATCH"),
    ],
)
def test_a_recovery_action_is_taken_at_its_word(to: str, wanted: str) -> None:
    said = f"GPU recovery action changed from 0x0 (None) to {to}"
    found = lib.gs_xidlog_class(log(xid(154, said)), 0, False)  # noqa: FBT003
    assert found == getattr(lib, f"GS_XID_{wanted}")


def test_channels_removed_follow_the_other_fault() -> None:
    alone, second = log(xid(45)), log(xid(48), xid(45))
    assert lib.gs_xidlog_class(alone, 0, False) == lib.GS_XID_WATCH  # noqa: FBT003
    assert lib.gs_xidlog_class(second, 1, False) == lib.GS_XID_IGNORE  # noqa: FBT003


def test_the_same_fault_is_counted_not_listed_again() -> None:
    made = log(*[xid(13)] * 1000)
    assert (made.count, made.xids[0].times, made.lost) == (1, 1000, 0)


def test_more_faults_than_fit_are_counted() -> None:
    made = log(*[xid(1000 + i) for i in range(lib.GS_XID_MAX + 5)])
    assert (made.count, made.lost) == (lib.GS_XID_MAX, 5)


@pytest.mark.parametrize(
    ("wanted", "listed"),
    [
        ("fail", [46, 48, 54, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143]),
        ("fail", [151, 155, 156, 158]),
        ("warn", [13, 31, 45, 94, 109, *range(144, 151), 86, 103, 130, 777]),
        ("ok", [43, 63, 92, 121, 137, 141, 157, 164]),
    ],
)
def test_each_xid_has_its_class(wanted: str, listed: list[int]) -> None:
    for number in listed:
        info = lib.gs_xid_info(number)
        assert text(lib.gs_verdict_name(info.verdict)) == wanted, number
        assert text(lib.gs_xid_class_action(info.cls))


def test_control_characters_do_not_get_through() -> None:
    assert "\x1b" not in text(read(f"NVRM: Xid {PCI}: 79, \x1b[31m")[1].text)


@given(st.text(max_size=300))
def test_any_text_is_some_line(line: str) -> None:
    assert read(f"NVRM: Xid {PCI}: {line}")[0] in (lib.GS_KLOG_OTHER, lib.GS_KLOG_XID)
    assert read(line)[0] in range(4)


@pytest.mark.parametrize(
    ("given_as", "wanted"),
    [
        ("00000000:1A:00.0", "0000:1a:00.0"),
        ("PCI:0000:1a:00", "0000:1a:00.0"),
        ("10000:01:00.0", "10000:01:00.0"),
        ("1a:00.0", None),
        ("0000:1a:00.9", None),
        ("0000:1a:00.0x", None),
    ],
)
def test_pci_addresses_have_one_form(given_as: str, wanted: str | None) -> None:
    out = ffi.new(f"char[{lib.GS_XID_PCI}]")
    raw = given_as.encode()
    assert (text(out) if lib.gs_pci_normalise(raw, len(raw), out) else None) == wanted


def test_verdicts_are_ordered_and_named() -> None:
    names = ["ok", "unknown", "warn", "fail"]
    read_back = ffi.new("enum gs_verdict *")
    for i, name in enumerate(names):
        assert text(lib.gs_verdict_name(i)) == name
        assert lib.gs_verdict_read(name.encode(), read_back)
        assert read_back[0] == i
        assert lib.gs_verdict_worst(i, lib.GS_WARN) == max(i, lib.GS_WARN)
    assert text(lib.gs_verdict_name(99)) == "unknown"
    assert not lib.gs_verdict_read(b"fine", read_back)
