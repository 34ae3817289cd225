"""gangstart.conf: what a site wants of each check."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest
from core.c import lib, text
from gangstart.errors import GangstartError
from gangstart.gpupolicy import Policy
from hypothesis import given
from hypothesis import strategies as st
from repo import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from core.c import Struct

H100 = "NVIDIA H100 80GB HBM3"
MANUAL = (ROOT / "docs" / "man" / "gangstart.conf.5").read_text()


def rule(policy: Policy, check: str, model: str = "") -> Struct:
    number = lib.gs_check_find(check.encode())
    return lib.gs_policy_find(policy.c, number, model.encode())


def severity(policy: Policy, check: str, model: str = "") -> str:
    return text(lib.gs_severity_name(rule(policy, check, model).severity))


def test_without_a_line_the_defaults_hold() -> None:
    for i in range(lib.GS_CHECKS):
        info = lib.gs_check_get(i)
        found = lib.gs_policy_find(Policy().c, i, H100.encode())
        assert (found.severity, found.limit) == (info.severity, info.limit)
        assert (found.grace_s, found.retries) == (info.grace_s, info.retries)


def test_each_field_of_a_check_can_be_set() -> None:
    policy = Policy.parse(
        "# ours\n\n temp_idle = fail # hot room\ntemp_idle.limit=65\r\n"
        "temp_idle.grace = 0\ntemp_idle.retries = 7\nxid_lookback = 60\n"
    )
    found = rule(policy, "temp_idle")
    assert severity(policy, "temp_idle") == "fail"
    assert (found.limit, found.grace_s, found.retries) == (65, 0, 7)
    assert policy.c.xid_lookback_s == 60
    assert policy.c.expected_gpus == -1


def test_a_section_is_for_the_models_that_start_so() -> None:
    policy = Policy.parse(
        "nvlink = warn\n[H100]\nnvlink = info\npcie_width.limit = 8\n"
        "[NVIDIA H100 80GB]\nnvlink = off\n[A10]\nnvlink = fail\n"
    )
    assert severity(policy, "nvlink") == "warn"
    assert severity(policy, "nvlink", H100) == "off", "the longest name wins"
    assert rule(policy, "pcie_width", H100).limit == 8, "the others still hold"
    assert severity(policy, "nvlink", "nvidia h100 nvl") == "info"
    assert severity(policy, "nvlink", "NVIDIA A100-SXM4-80GB") == "warn"
    assert severity(policy, "nvlink", "NVIDIA A10") == "fail"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ecc_unk = off", "unknown key ecc_unk"),
        ("ecc_unc.limits = 1", "unknown key ecc_unc.limits"),
        ("ecc_unc = maybe", "off, info, warn or fail"),
        ("ecc_unc.limit = -1", "whole number"),
        ("ecc_unc.limit = 1.5", "whole number"),
        ("ecc_unc.grace = 3601", "0 to 3600"),
        ("ecc_unc.retries = 101", "0 to 100"),
        ("remap_failed.limit = 1", "has no limit"),
        ("ecc_unc", "neither"),
        ("= off", "unknown key"),
        ("expected_gpus = 65", "0 to 64"),
        ("expected_gpus =", "0 to 64"),
        ("[]", "a section is"),
        (f"[{'x' * 64}]", "a section is"),
        ("[H100]\ncount = off", "whole node"),
        ("[H100]\nexpected_gpus = 4", "not of a GPU model"),
        ("[H100]\n[h100]", "there twice"),
        ("ecc_unc = off\necc_unc = fail", "set twice"),
        ("expected_gpus = 4\nexpected_gpus = 4", "set twice"),
        ("".join(f"[m{i}]\n" for i in range(17)).rstrip(), "more than 16"),
    ],
)
def test_a_wrong_line_is_named(line: str, said: str) -> None:
    with pytest.raises(GangstartError) as caught:
        Policy.parse(f"# first\n{line}\n", "site.conf")
    number = line.count("\n") + 2
    assert caught.value.message.startswith(f"site.conf line {number}: ")
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_a_file_that_is_not_there_means_the_defaults_or_an_error(
    tmp_path: Path,
) -> None:
    missing = str(tmp_path / "none.conf")
    assert severity(Policy.load(missing), "nvlink") == "fail"
    with pytest.raises(GangstartError, match=r"none\.conf"):
        Policy.load(missing, optional=False)


def test_a_file_is_read_and_its_errors_name_it(tmp_path: Path) -> None:
    path = tmp_path / "gangstart.conf"
    path.write_text("nvlink = off\n")
    assert severity(Policy.load(str(path)), "nvlink") == "off"
    path.write_text("nvlink = of\n")
    with pytest.raises(GangstartError, match=r"gangstart\.conf line 1: nvlink = of"):
        Policy.load(str(path))


@pytest.mark.parametrize("content", [b"#" * 70000, b"nvlink = off\n\0"])
def test_what_is_no_configuration_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "gangstart.conf"
    path.write_bytes(content)
    with pytest.raises(GangstartError, match="no configuration"):
        Policy.load(str(path))


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_a_pipe_or_a_folder_in_its_place_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(GangstartError, match=f"{kind} is not a plain file"):
        Policy.load(str(path))


@given(st.text(max_size=200).filter(lambda s: "\0" not in s))
def test_any_text_is_taken_or_refused_in_one_line(content: str) -> None:
    said = "name line 1: taken"
    try:
        Policy.parse(content)
    except GangstartError as err:
        said = err.message
    assert "\n" not in said
    assert " line " in said


def test_the_manual_lists_every_check_with_its_defaults() -> None:
    rows = re.findall(r"^(\w+);(\w+);(\S*);(\d+);(\d+);", MANUAL, re.MULTILINE)
    wanted = []
    for i in range(lib.GS_CHECKS):
        info = lib.gs_check_get(i)
        limit = f"{info.limit}" if text(info.unit) else "-"
        default = text(lib.gs_severity_name(info.severity))
        row = (text(info.id), default, limit, str(info.grace_s), str(info.retries))
        wanted.append(row)
    assert rows == wanted


def test_ids_are_unique_and_every_text_is_there() -> None:
    infos = [lib.gs_check_get(i) for i in range(lib.GS_CHECKS)]
    ids = [text(i.id) for i in infos]
    assert len(set(ids)) == len(ids)
    for info in infos:
        for field in ("id", "code", "title", "source", "action"):
            assert text(getattr(info, field))
    assert lib.gs_check_find(b"weather") == -1


def test_an_unknown_key_is_told_every_key_there_is() -> None:
    with pytest.raises(GangstartError, match="unknown key x") as told:
        Policy.parse("x = 1\n")
    for key in ("expected_gpus", "probe_deadline", "gpu_deadline", "kernel_log"):
        assert key in told.value.message
