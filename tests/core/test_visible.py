"""CUDA_VISIBLE_DEVICES, read as CUDA reads it."""

from __future__ import annotations

import pytest
from gangstart import core
from gangstart._core import ffi, lib

UUIDS = ["GPU-0000", "GPU-1111", "GPU-1222", "GPU-3333", "MIG-44", "MIG-55"]


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        (None, [0, 1, 2, 3, 4, 5]),
        ("", []),
        ("0", [0]),
        ("2,0", [2, 0]),
        (" 1 ,\t3", [1, 3]),
        ("0,1,-1,2", [0, 1]),
        ("0,6,1", [0]),
        ("0,,1", [0]),
        ("0,x,1", [0]),
        ("1x", []),
        ("0,1,0", []),
        ("01", [1]),
        ("GPU-3", [3]),
        ("GPU-1", []),
        ("GPU-1111", [1]),
        ("GPU-0000,GPU-9", [0]),
        ("0,GPU-00", []),
        ("MIG-4,MIG-5", [4, 5]),
        ("gpu-0000", []),
        ("NoDevFiles", []),
        ("99999999999999999999", []),
    ],
)
def test_the_devices_cuda_would_show(value: str | None, indices: list[int]) -> None:
    assert core.visible(value, len(UUIDS), UUIDS) == indices


def test_an_exact_uuid_wins_over_one_it_is_a_prefix_of() -> None:
    assert core.visible("GPU-1", 2, ["GPU-12", "GPU-1"]) == [1]


def test_without_known_uuids_an_entry_that_names_one_ends_the_list() -> None:
    assert core.visible("0,GPU-1111,1", 4, []) == [0]


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (b"", 0),
        (b"0", 1),
        (b"0,1,2,3", 4),
        (b"0,-1,2", 1),
        (b"GPU-a,MIG-b", 2),
        (b"0,0", 0),
        (b"NoDevFiles", 0),
    ],
)
def test_the_value_alone_tells_how_many_at_most(value: bytes, count: int) -> None:
    assert lib.gs_visible_count(value) == count


def test_an_unset_variable_says_nothing() -> None:
    assert lib.gs_visible_count(ffi.NULL) == -1


def test_a_list_beyond_any_node_is_bounded() -> None:
    value = ",".join(str(i) for i in range(5000))
    assert lib.gs_visible_count(value.encode()) == lib.GS_VISIBLE_MAX
    assert len(core.visible(value, 5000, [])) == lib.GS_VISIBLE_MAX
