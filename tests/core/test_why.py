"""Why a node has not come: the clause for what was found out."""

from __future__ import annotations

import pytest
from core.c import ffi, lib, new, text

S = 1_000_000


def clause(facts: dict[str, object]) -> str:
    why = new("gs_why", **({"asked": True} | facts))
    out = ffi.new("char[512]")
    lib.gs_why_text(why, 61 * S, out, 512)
    return text(out)


ALIVE: dict[str, object] = {"slurmd": lib.GS_SLURMD_ALIVE}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"asked": False}, ""),
        ({}, ""),
        ({"down": True}, "node is DOWN"),
        ({"down": True, "reason": b"dimm 3"}, "node is DOWN (Reason: dimm 3)"),
        ({"drain": True, "reason": b"xid 79"}, "node is draining (Reason: xid 79)"),
        ({"not_responding": True}, "slurmctld gets no response from the node"),
        ({"powering": True, "down": True}, "node is powering up or down"),
        (
            {"slurmd": lib.GS_SLURMD_UNREACHABLE, "connect_errno": 111},
            "slurmd cannot be reached (Connection refused)",
        ),
        (
            {"slurmd": lib.GS_SLURMD_MUTE, "mute_us": 58 * S},
            "slurmd takes connections but does not answer (for 58 s)",
        ),
        (ALIVE, "slurmd answers"),
        (
            ALIVE | {"step_known": True},
            (
                "slurmd answers; it has not launched the step for 61 s, or without us "
                "(plugin not loaded there?)"
            ),
        ),
        (
            ALIVE | {"step_known": True, "step_there": True, "prolog": True},
            "slurmd answers; slurmstepd has started no task for 61 s",
        ),
        (
            ALIVE | {"step_known": True, "prolog": True},
            "slurmd answers; Prolog running for 61 s",
        ),
        (
            {"drain": True} | ALIVE | {"step_known": True, "prolog": True},
            "node is draining; slurmd answers; Prolog running for 61 s",
        ),
    ],
)
def test_each_fact_has_its_clause(facts: dict[str, object], said: str) -> None:
    assert clause(facts) == said


def test_tasks_that_run_without_the_plugin_are_told() -> None:
    there = {"step_known": True, "step_there": True, "process_count": 8}
    said = clause(ALIVE | there | {"prolog": True})
    assert "8 processes of the step run there without us" in said
    assert "Prolog" not in said, "it is over where tasks run"


def test_a_plugin_that_works_before_the_tasks_is_asked_about() -> None:
    there = ALIVE | {"step_known": True, "step_there": True, "user_init": b"pyxis, a"}
    assert clause(there) == (
        "slurmd answers; slurmstepd has started no task for 61 s: is it in user_init "
        "of pyxis, a?"
    )
    # Its import is a process of the step; so would be a task that runs without us.
    said = clause(there | {"process_count": 1})
    assert "still in user_init of pyxis, a for 61 s, or its tasks run without" in said


def test_a_reason_without_trouble_is_not_told() -> None:
    assert clause(ALIVE | {"reason": b"was repaired"}) == "slurmd answers"


def test_control_characters_of_a_reason_do_not_reach_the_terminal() -> None:
    said = clause({"down": True, "reason": b"\x1b[31mred\nline"})
    assert said == "node is DOWN (Reason: ?[31mred?line)"
