"""Task counts: Slurm's run-length form, bounded."""

from __future__ import annotations

import pytest
from gangstart import core
from gangstart.errors import GangstartError


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("4", [4]),
        ("2(x3),1", [2, 2, 2, 1]),
        ("1(x2)", [1, 1]),
        ("3,2(x2)", [3, 2, 2]),
        ("65535", [65535]),
        ("8(x1)", [8]),
    ],
)
def test_counts_expand(text: str, counts: list[int]) -> None:
    assert core.task_counts(text) == counts


def test_the_largest_step_is_read() -> None:
    assert len(core.task_counts("1(x131072)")) == 131072
    assert len(core.task_counts("1(x131071),2")) == 131072


BAD = "|".join(
    (
        "",
        "x",
        "2(",
        "2(x",
        "2(x3",
        "2(x)",
        "2(3)",
        "2x3",
        "2(x3)1",
        "2,",
        ",2",
        "2,,1",
        "0",
        "2(x0)",
        "-1",
        "+1",
        " 2",
        "2 ",
        "2, 1",
        "65536",
        "1(x131073)",
        "1(x131072),1",
        "18446744073709551617",
        "1(x18446744073709551617)",
        "1(x4294967297)",
    )
).split("|")


@pytest.mark.parametrize("text", BAD)
def test_malformed_counts_are_refused_with_their_text(text: str) -> None:
    with pytest.raises(GangstartError) as caught:
        core.task_counts(text)
    assert f"'{text}'" in caught.value.message
    assert "2(x3),1" in caught.value.message
