"""How gangstart doctor ends what it started: by commands that only look real."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gangstart.doctor import ask, site
from gangstart.doctor.site import Node, Site
from gangstart.doctor.tools import Answer, Until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NODES = [Node("n1", "idle"), Node("n2", "idle")]
JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]"}


@dataclass
class Silent:
    """An srun that never answers; everything that was run, and for how long."""

    ran: list[tuple[list[str], float]] = field(default_factory=list)
    steps: str = ""

    def run(
        self, argv: Sequence[str], seconds: float, env: Mapping[str, str]
    ) -> Answer:
        """Note it."""
        del env
        self.ran.append(([*argv], seconds))
        if argv[0] == "srun":
            (name,) = [word.partition("=")[2] for word in argv if "job-name" in word]
            self.steps = f"7.3 other\n7.4 {name}\n"
            return Answer(None, err="no answer")
        return Answer(0, self.steps)


def asked(tools: Silent, env: Mapping[str, str], left_s: float) -> ask.Asked:
    """Ask two nodes."""
    until = time.monotonic() + left_s
    in_job = bool(env)
    way = ask.Way(site=Site(), env=env, tools=tools, in_job=in_job, until=until)
    return ask.nodes(way, NODES)


def test_an_srun_that_was_ended_has_its_job_cancelled_by_its_own_name() -> None:
    tools = Silent()
    asked(tools, {}, 60)
    (srun, seconds), (scancel, _) = tools.ran
    (name,) = [word for word in srun if word.startswith("--job-name=")]
    assert scancel == ["scancel", name.replace("--job-name", "--name")]
    assert seconds <= 60 - ask.END_S


def test_in_an_allocation_the_step_is_cancelled_and_not_the_job() -> None:
    tools = Silent()
    asked(tools, JOB, 60)
    assert [argv[0] for argv, _ in tools.ran] == ["srun", "squeue", "scancel"]
    assert tools.ran[-1][0] == ["scancel", "7.4"]


def test_when_the_time_is_up_nothing_is_started() -> None:
    tools = Silent()
    found = asked(tools, {}, ask.END_S)
    assert tools.ran == []
    assert found.srun_problem == (
        "no answer: the time was up (--deadline) before it was asked"
    )


def test_no_command_gets_more_time_than_there_is() -> None:
    tools = Silent()
    Until(tools, time.monotonic() - 5).run(["scontrol"], 10, {})
    Until(tools, time.monotonic() + 500).run(["scontrol"], 10, {})
    assert [seconds for _, seconds in tools.ran] == [1.0, 10]


def test_the_reason_is_what_was_wrong_and_not_where_to_read_on() -> None:
    said = "srun: unrecognized option '--bogus'"
    hint = 'Try "srun --help" for more information'
    assert Answer(1, err=f"{said}\n{hint}\n").problem == said


def test_slurm_that_hangs_is_waited_for_once() -> None:
    together = threading.Barrier(4, timeout=30)

    class Hangs:
        """Every command waits until all four have been started."""

        def run(
            self, argv: Sequence[str], seconds: float, env: Mapping[str, str]
        ) -> Answer:
            del argv, seconds, env
            together.wait()
            return Answer(None, err="no answer")

    assert site.read(Hangs(), {}).config_problem == "no answer"
