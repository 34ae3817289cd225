"""pyslurm is asked in a process of its own, and only where it fits."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from gangstart.triage.model import Outcome
from gangstart.triage.source import bounded, bypyslurm, pyslurm_child
from gangstart.triage.source.bounded import Ran
from gangstart.triage.source.bypyslurm import PySlurm
from gangstart.triage.source.commands import Commands
from gangstart.triage.source.record import Wanted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class FakeError(Exception):
    """pyslurm.PyslurmError."""


class Thing:
    """An object of pyslurm: attributes and to_dict()."""

    def __init__(self, **told: Any) -> None:  # noqa: ANN401
        self.__dict__.update(told)

    def to_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


STEP = Thing(id=0, name="train", state="FAILED", exit_code=0, exit_code_signal=11)
JOBS = {
    5: Thing(id=5, array_id=5, heterogeneous_id=None, array_task_id=2, steps={}),
    6: Thing(id=6, array_id=5, heterogeneous_id=None, array_task_id=None, steps={}),
    7: Thing(id=7, array_id=None, heterogeneous_id=None, steps={0: STEP}),
}


def load(number: int) -> Thing:
    """pyslurm.Job.load."""
    if number not in JOBS:
        raise FakeError("Invalid job id specified")
    return JOBS[number]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A pyslurm with three jobs."""
    module = ModuleType("pyslurm")
    module.__dict__.update(
        __version__="25.11.2",
        PyslurmError=FakeError,
        Job=SimpleNamespace(load=load),
        Jobs=SimpleNamespace(load=lambda: JOBS),
        Nodes=SimpleNamespace(load=lambda: {"n1": Thing(name="n1", state="IDLE")}),
        db=SimpleNamespace(
            JobFilter=lambda ids: ids,
            Jobs=SimpleNamespace(load=lambda ids: {i: JOBS[i] for i in ids}),
        ),
    )
    monkeypatch.setitem(sys.modules, "pyslurm", module)
    return module


def asked(capsys: pytest.CaptureFixture[str], **request: object) -> dict[str, Any]:
    assert pyslurm_child.main([json.dumps(request)]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


@pytest.mark.usefixtures("fake")
def test_what_the_helper_prints(capsys: pytest.CaptureFixture[str]) -> None:
    array = asked(capsys, do="controller", job=5)
    plain = asked(capsys, do="accounting", job=7)

    assert [one["id"] for one in array["found"]] == [5, 6]
    assert plain["found"][0]["steps"]["0"]["exit_code_signal"] == 11
    assert asked(capsys, do="controller", job=9) == {"found": []}
    assert asked(capsys, do="nodes", names=["n1", "n2"])["found"][0]["name"] == "n1"


def test_trouble_of_the_helper_is_told(
    capsys: pytest.CaptureFixture[str],
    fake: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise FakeError("Unable to contact slurm controller")

    fake.Nodes = SimpleNamespace(load=refuse)  # type: ignore[attr-defined]
    unable = asked(capsys, do="nodes", names=["n1"])
    del fake.Nodes
    old = asked(capsys, do="nodes", names=["n1"])
    monkeypatch.setitem(sys.modules, "pyslurm", None)
    absent = asked(capsys, do="fit")

    assert unable == {"error": "Unable to contact slurm controller"}
    assert old["error"].startswith("this pyslurm is not of a known kind")
    assert absent["error"].startswith("pyslurm cannot be imported")


@dataclass
class Says:
    """Runs nothing and answers this."""

    out: str
    code: int = 0
    err: str = ""

    def __call__(
        self,
        argv: Sequence[str],  # noqa: ARG002
        *,
        deadline_s: float,  # noqa: ARG002
        env: Mapping[str, str],  # noqa: ARG002
        limit: int = bounded.OUTPUT_BYTES,  # noqa: ARG002
    ) -> Ran:
        """Answer."""
        return Ran(self.code, self.out.encode(), self.err)


def says(version: str) -> Commands:
    """Commands of a release."""
    return Commands(run=Says(f"slurm {version}\n"))


helper = Says


FIT = '{"found":[{"pyslurm":"25.11.2"}]}'


@pytest.mark.parametrize(
    ("version", "told", "why"),
    [
        ("25.11.8", FIT, None),
        ("25.05.1", FIT, "pyslurm 25.11.2 does not fit the Slurm here, 25.05"),
        ("", FIT, "pyslurm 25.11.2 does not fit the Slurm here, of unknown release"),
        ("25.11.8", '{"error":"no libslurm"}', "no libslurm"),
        ("25.11.8", "[]", "its answer has an unknown form"),
        ("25.11.8", "oops", "what it printed is not JSON"),
        ("25.11.8", '{"found":[]}', "it told no version"),
    ],
)
def test_pyslurm_is_used_only_where_it_fits(
    version: str, told: str, why: str | None
) -> None:
    assert PySlurm(says(version), run=helper(told)).misfit() == why


def test_a_libslurm_that_ends_its_process_is_told_as_a_value() -> None:
    ended = helper("", 1, "fatal: Could not establish a configuration source\n")
    answer = PySlurm(says("25.11.8"), run=ended).controller(Wanted(7))

    assert answer.state.outcome is Outcome.UNREACHABLE
    assert "Could not establish a configuration source" in answer.state.detail


@pytest.mark.parametrize("told", ['{"found":[{}]}', '{"found":[{"id":"x"}]}'])
def test_objects_that_make_no_sense(told: str) -> None:
    answer = PySlurm(says("25.11.8"), run=helper(told)).controller(Wanted(7))

    assert answer.state.outcome is Outcome.UNREACHABLE
    assert "makes no sense" in answer.state.detail


def test_without_pyslurm_the_commands_are_used() -> None:
    if find_spec("pyslurm"):
        pytest.skip("pyslurm is installed here")
    by, remark = bypyslurm.choose()

    assert (by.name, remark) == ("commands", "")


def test_the_real_helper_without_pyslurm_says_so() -> None:
    if find_spec("pyslurm"):
        pytest.skip("pyslurm is installed here")

    assert (PySlurm().misfit() or "").startswith("pyslurm cannot be imported")
