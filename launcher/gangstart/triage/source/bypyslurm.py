"""Slurm asked by pyslurm, where that is installed and fits the running Slurm.

Its habits, seen with 25.11.2 and read in its sources: 128 is taken off exit codes from
128 on; a 0 is None for an array's task 0 and a heterogeneous job's component 0; a
waiting job has a start and an end that are Slurm's guesses; of a requeued job the
accounting gives the last run only (24.11 does not tell of requeues at all, nor of the
components of a heterogeneous job), so that sacct is asked for the others.
"""

from __future__ import annotations

import importlib.util
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from gangstart import job
from gangstart.triage.model import NodeState
from gangstart.triage.source import bounded, values
from gangstart.triage.source.commands import Commands, environment, version
from gangstart.triage.source.record import (
    BY_SIGNAL,
    Answer,
    Exit,
    GarbageError,
    Record,
    StepRecord,
    Wanted,
    answered,
    kept,
    unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gangstart.triage.model import PastJob
    from gangstart.triage.source.bounded import Runner
    from gangstart.triage.source.record import Slurm

T = TypeVar("T")
MODULE = "gangstart.triage.source.pyslurm_child"
DEADLINE_S = 10.0


@dataclass
class PySlurm:
    """pyslurm in a process of its own, with the commands for what it lacks."""

    commands: Commands = field(default_factory=Commands)
    run: Runner = bounded.run
    deadline_s: float = DEADLINE_S
    name: str = "pyslurm"

    def misfit(self) -> str | None:
        """Why pyslurm cannot be used here; None if it can."""
        told, why = self._ask({"do": "fit"})
        if told is None or not told:
            return why or "it told no version"
        ours, slurm = str(told[0].get("pyslurm", "")), self.commands.release()
        if version(ours) is None or version(ours) != slurm:
            shown = "{}.{:02}".format(*slurm) if slurm else "of unknown release"
            return f"pyslurm {ours} does not fit the Slurm here, {shown}"
        return None

    def controller(self, wanted: Wanted) -> Answer[Record]:
        """What slurmctld has."""
        request = {"do": "controller", "job": wanted.number}
        answer = self._answer("pyslurm.Job", request, controller_job)
        return kept(answer, wanted, "slurmctld has no such job (any more)")

    def accounting(self, wanted: Wanted) -> Answer[Record]:
        """What slurmdbd has; by sacct if the job was requeued, or may have been."""
        request = {"do": "accounting", "job": wanted.number}
        answer = self._answer("pyslurm.db.Job", request, accounting_job)
        answer = kept(answer, wanted, "the accounting has no such job")
        if any(one.restarts != 0 for one in answer.found):
            by_sacct = self.commands.accounting(wanted)
            return by_sacct if by_sacct.found else answer
        return answer

    def nodes(self, names: Sequence[str]) -> Answer[NodeState]:
        """How these nodes are now."""
        request = {"do": "nodes", "names": list(names)}
        return self._answer("pyslurm.Node", request, node)

    def script(self, number: int) -> str:
        """The batch script: by the commands."""
        return self.commands.script(number)

    def past(self, names: Sequence[str], since: float, until: float) -> Answer[PastJob]:
        """Other jobs on these nodes: by sacct."""
        return self.commands.past(names, since, until)

    def _ask(self, request: dict[str, Any]) -> tuple[list[dict[str, Any]] | None, str]:
        """Objects that were found, or None and why."""
        argv = job.module_argv(MODULE, json.dumps(request))
        ran = self.run(argv, deadline_s=self.deadline_s, env=environment())
        if ran.complaint:
            return None, ran.complaint
        try:
            told = json.loads(ran.out)
        except (ValueError, RecursionError):
            return None, "what it printed is not JSON"
        found = told.get("found") if isinstance(told, dict) else None
        if not isinstance(found, list) or not all(isinstance(o, dict) for o in found):
            why = told.get("error", "") if isinstance(told, dict) else ""
            return None, str(why) or "its answer has an unknown form"
        return found, ""

    def _answer(
        self,
        name: str,
        request: dict[str, Any],
        read: Callable[[Mapping[str, Any]], T],
    ) -> Answer[T]:
        """Ask, and read every object."""
        begun = time.monotonic()
        found, why = self._ask(request)
        took = time.monotonic() - begun
        if found is None:
            return unreachable(name, why, took)
        try:
            return answered(
                name, [read(o) for o in found], "it had nothing to say", took
            )
        except GarbageError as error:
            return unreachable(name, f"its answer makes no sense: {error}", took)


def choose(commands: Commands | None = None) -> tuple[Slurm, str]:
    """The way to ask Slurm here, and a remark if pyslurm is there but not used."""
    by_commands = commands or Commands()
    if importlib.util.find_spec("pyslurm") is None:
        return by_commands, ""
    by_pyslurm = PySlurm(by_commands, by_commands.run, by_commands.deadline_s)
    why = by_pyslurm.misfit()
    return (by_pyslurm, "") if why is None else (by_commands, f"not by pyslurm: {why}")


def exit_of(one: Mapping[str, Any], prefix: str = "") -> Exit:
    """An exit code, of which pyslurm has taken 128 off if it was more."""
    code = values.integer(one.get(f"{prefix}exit_code")) or 0
    signal = values.integer(one.get(f"{prefix}exit_code_signal")) or 0
    return Exit(code, signal, exact=not 0 < code < BY_SIGNAL)


def common(one: Mapping[str, Any]) -> dict[str, Any]:
    """What jobs of the controller and of the accounting have alike."""
    number = values.integer(one.get("id"))
    if number is None:
        raise GarbageError("a job without a number")
    state, flags, by = values.state(one.get("state"))
    pending = state == "PENDING"
    array, het = (
        values.integer(one.get("array_id")),
        values.integer(one.get("heterogeneous_id")),
    )
    waiting = one.get("array_tasks_waiting") is not None
    task = values.integer(one.get("array_task_id"))
    offset = values.integer(one.get("heterogeneous_offset"))
    out = values.text(one.get("standard_output"))
    return {
        "number": number,
        "name": values.text(one.get("name")),
        "user": values.text(one.get("user_name")),
        "uid": values.integer(one.get("user_id")),
        "array": array,
        "task": (task or 0) if array is not None and not waiting else None,
        "het": het,
        "het_offset": (offset or 0) if het is not None else None,
        "state": state,
        "flags": flags,
        "cancelled_by": by,
        "reason": values.text(one.get("state_reason")),
        "exit": exit_of(one),
        "derived": exit_of(one, "derived_"),
        "restarts": values.integer(one.get("requeue_count")),
        "submit": values.moment(one.get("submit_time")),
        "start": None if pending else values.moment(one.get("start_time")),
        "end": None if pending else values.moment(one.get("end_time")),
        "limit_s": values.minutes(values.number(one.get("time_limit"))),
        "tres": tres(one.get("allocated_tres")),
        "work_dir": values.text(one.get("working_directory")),
        "stdout": out,
        "stderr": values.text(one.get("standard_error")) or out,
    }


def controller_job(one: Mapping[str, Any]) -> Record:
    """A pyslurm.Job as a record."""
    return Record(
        **common(one),
        nodes=values.nodes(values.text(one.get("allocated_nodes"))),
        tasks=values.integer(one.get("ntasks")),
        command=values.text(one.get("command")),
        submit_line=values.text(one.get("submit_line")),
    )


def accounting_job(one: Mapping[str, Any]) -> Record:
    """A pyslurm.db.Job as a record."""
    steps = values.mapping(one.get("steps"))
    return Record(
        **common(one),
        cancelled_name=values.text(one.get("cancelled_by")),
        nodes=values.nodes(values.text(one.get("nodelist"))),
        submit_line=values.text(one.get("submit_command")),
        steps=tuple(step(values.mapping(entry)) for entry in steps.values()),
    )


def step(one: Mapping[str, Any]) -> StepRecord:
    """A pyslurm.db.JobStep as a record."""
    state, _, by = values.state(one.get("state"))
    return StepRecord(
        name=str(one.get("id", "")),
        program=values.text(one.get("name")),
        state=state,
        exit=exit_of(one),
        cancelled_by=by,
        nodes=values.nodes(values.text(one.get("nodelist"))),
        start=values.moment(one.get("start_time")),
        end=values.moment(one.get("end_time")),
        tasks=values.integer(one.get("ntasks")),
        stdout=values.text(one.get("standard_output")),
        stderr=values.text(one.get("standard_error")),
        submit_line=values.text(one.get("submit_command")),
    )


def tres(value: object) -> dict[str, str]:
    """What was allocated: cpu, mem, node, billing and the generic resources."""
    found: dict[str, str] = {}
    for name, told in values.mapping(value).items():
        count = values.integer(values.mapping(told).get("count"))
        if count is not None:
            found[name] = f"{count}M" if name == "mem" else str(count)
    for name, told in values.mapping(values.mapping(value).get("gres")).items():
        count = values.integer(values.mapping(told).get("count"))
        found[f"gres/{name}"] = str(told if count is None else count)
    return found


def node(one: Mapping[str, Any]) -> NodeState:
    """A pyslurm.Node."""
    name = values.text(one.get("name"))
    if not name:
        raise GarbageError("a node without a name")
    gres = values.mapping(one.get("configured_gres"))
    return NodeState(
        name=name,
        state=values.text(one.get("state")),
        reason=values.text(one.get("reason")),
        reason_time=values.moment(one.get("reason_time")),
        gres=",".join(f"{k}:{v}" for k, v in gres.items()),
        boot_time=values.moment(one.get("boot_time")),
    )
