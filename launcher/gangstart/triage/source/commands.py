"""Slurm asked by its commands, each with a deadline and a most of output.

scontrol has --json from 23.02 on. sacct has it since 21.08, but up to 23.02 it tells
of failed jobs that they ended with code 0, and of no user (seen with 22.05); so it is
asked for JSON from 23.11 on, and for text before.
"""

from __future__ import annotations

import re
import secrets
import shutil
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from gangstart import core, job
from gangstart.triage.source import bounded, slurmjson, slurmtext
from gangstart.triage.source.history import past_jobs
from gangstart.triage.source.record import (
    Answer,
    GarbageError,
    Record,
    Wanted,
    answered,
    kept,
    unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gangstart.triage.model import NodeState, PastJob
    from gangstart.triage.source.bounded import Ran, Runner

    Parse = Callable[[bytes], Sequence["T"]]

T = TypeVar("T")
DEADLINE_S = 10.0
SCONTROL_JSON = (23, 2)
SACCT_JSON = (23, 11)
VERSION = re.compile(r"\b(\d\d)\.(\d\d)")
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
#: What slurmctld says of a job that it no longer has, or never had.
NO_JOB = "Invalid job id specified"
NO_ACCOUNTING = (
    "Slurm accounting storage is disabled",
    "You are not running a supported",
)
UID_ROW = re.compile(r"(\d{1,10}) (\d{1,10})")
#: Take the site's habits out of the answers.
CLEARED = (
    "SQUEUE_FORMAT",
    "SQUEUE_FORMAT2",
    "SQUEUE_STATES",
    "SACCT_FORMAT",
    "SLURM_BITSTR_LEN",
    "SLURM_JSON",
    "SLURM_YAML",
)


def environment() -> dict[str, str]:
    """What the commands see: the caller's, with fixed language and times."""
    cleared: dict[str, str | None] = dict.fromkeys(CLEARED)
    fixed = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
    return job.child_env(None, **cleared, **fixed)


def version(told: str) -> tuple[int, int] | None:
    """Release line in ``slurm-wlm 22.05.8``."""
    match = VERSION.search(told)
    return (int(match[1]), int(match[2])) if match else None


@dataclass
class Commands:
    """scontrol, squeue and sacct of this machine's PATH."""

    run: Runner = bounded.run
    deadline_s: float = DEADLINE_S
    name: str = "commands"
    env: dict[str, str] = field(default_factory=environment)

    def controller(self, wanted: Wanted) -> Answer[Record]:
        """What slurmctld has: by scontrol."""
        json = self.speaks("scontrol", SCONTROL_JSON)
        ask = self._jobs_json if json else self._jobs_text
        return kept(ask(wanted), wanted, "slurmctld has no such job (any more)")

    def accounting(self, wanted: Wanted) -> Answer[Record]:
        """What slurmdbd has: by sacct."""
        json = self.speaks("sacct", SACCT_JSON)
        ask = self._sacct_json if json else self._sacct_text
        return kept(ask(wanted), wanted, "the accounting has no such job")

    def nodes(self, names: Sequence[str]) -> Answer[NodeState]:
        """How these nodes are now: by scontrol."""
        known = [name for name in names if NODE_NAME.fullmatch(name)]
        if not known:
            return answered("scontrol show node", (), "no node was asked for", 0.0)
        argv = ["scontrol", "show", "node", core.fold(known)]
        if self.speaks("scontrol", SCONTROL_JSON):
            return self._ask(
                [*argv, "--json"], lambda raw: slurmjson.nodes(slurmjson.parse(raw))
            )
        return self._ask(argv, lambda raw: slurmtext.scontrol_nodes(decoded(raw)))

    def script(self, number: int) -> str:
        """The batch script, for its user and root; "" if nobody has it (any more).

        slurmdbd has it where the site keeps scripts (AccountingStoreFlags=job_script).
        """
        asked = (
            ["scontrol", "write", "batch_script", str(number), "-"],
            ["sacct", "-n", "-B", "-j", str(number)],
        )
        for argv in asked:
            ran = self._run(argv)
            if not ran.complaint and ran.out.strip():
                return decoded(ran.out)
        return ""

    def past(self, names: Sequence[str], since: float, until: float) -> Answer[PastJob]:
        """Other jobs on these nodes in that time: by sacct."""
        known = [name for name in names if NODE_NAME.fullmatch(name)]
        if not known:
            return answered("sacct -N", (), "no node was asked for", 0.0)
        delimiter = secrets.token_hex(8)
        argv = past_argv(known, since, until, delimiter)
        return self._ask(argv, lambda raw: past_jobs(decoded(raw), delimiter))

    @cached_property
    def versions(self) -> dict[str, tuple[int, int] | None]:
        """Release lines of the commands, asked once each."""
        return {}

    def release(self, command: str = "scontrol") -> tuple[int, int] | None:
        """Release line of a command, asked once; None if it does not tell."""
        if command not in self.versions:
            ran = self._run([command, "-V"])
            self.versions[command] = version(decoded(ran.out))
        return self.versions[command]

    def speaks(self, command: str, since: tuple[int, int]) -> bool:
        """Whether a command is of a release from which on it has usable JSON."""
        found = self.release(command)
        return found is not None and found >= since

    def _run(self, argv: Sequence[str]) -> Ran:
        """Run a command that is in the PATH."""
        path = shutil.which(argv[0], path=self.env.get("PATH"))
        if self.run is bounded.run and path is None:
            return bounded.Ran(None, why=f"there is no {argv[0]} in PATH")
        return self.run(
            [path or argv[0], *argv[1:]], deadline_s=self.deadline_s, env=self.env
        )

    def _ask(self, argv: Sequence[str], parse: Parse[T]) -> Answer[T]:
        """Run a command and read its answer."""
        begun = time.monotonic()
        ran = self._run(argv)
        took = time.monotonic() - begun
        name = " ".join([argv[0], *(a for a in argv[1:3] if not a.startswith("-"))])
        name = argv[0] if argv[0] == "sacct" else name
        if ran.complaint:
            return refused(name, ran, took)
        try:
            found = parse(ran.out)
        except GarbageError as error:
            return unreachable(name, f"its answer makes no sense: {error}", took)
        return answered(name, found, "it had nothing to say", took)

    def _jobs_json(self, wanted: Wanted) -> Answer[Record]:
        argv = ["scontrol", "show", "job", str(wanted), "--json"]
        return self._ask(
            argv, lambda raw: slurmjson.controller_jobs(slurmjson.parse(raw))
        )

    def _jobs_text(self, wanted: Wanted) -> Answer[Record]:
        uids = self._uids(wanted.number)
        argv = ["scontrol", "show", "job", str(wanted)]
        return self._ask(argv, lambda raw: slurmtext.scontrol_jobs(decoded(raw), uids))

    def _uids(self, number: int) -> dict[int, int]:
        """Job -> its user's number, from a text that no user can write into."""
        argv = ["squeue", "-h", "-a", "-t", "all", "-j", str(number), "-o", "%A %U"]
        rows = decoded(self._run(argv).out).splitlines()
        found = (UID_ROW.fullmatch(row.strip()) for row in rows)
        return {int(match[1]): int(match[2]) for match in found if match}

    def _sacct_json(self, wanted: Wanted) -> Answer[Record]:
        argv = ["sacct", "-D", "-j", str(wanted), "--json"]
        answer = self._ask(
            argv, lambda raw: slurmjson.accounting_jobs(slurmjson.parse(raw))
        )
        if not any(map(lacks_lines, answer.found)):
            return answer
        lines = submit_lines(self._sacct_text(wanted).found)
        return replace(
            answer, found=tuple(with_lines(one, lines) for one in answer.found)
        )

    def _sacct_text(self, wanted: Wanted) -> Answer[Record]:
        delimiter = secrets.token_hex(8)
        argv = ["sacct", "-D", "-n", "-P", f"--delimiter={delimiter}", "-j"]
        argv += [str(wanted), "-o", ",".join(slurmtext.SACCT_FIELDS)]
        return self._ask(
            argv, lambda raw: slurmtext.sacct_jobs(decoded(raw), delimiter)
        )


def lacks_lines(record: Record) -> bool:
    """Whether a step has no command line: the JSON of 24.11 leaves it out."""
    return any(step.name.isdecimal() and not step.submit_line for step in record.steps)


Lines = dict[tuple[int, float | None, str], str]


def submit_lines(records: Sequence[Record]) -> Lines:
    """Command lines of steps: by job, start of the run, and step."""
    return {
        (record.number, record.start, step.name): step.submit_line
        for record in records
        for step in record.steps
    }


def with_lines(record: Record, lines: Lines) -> Record:
    """The record, with the command lines of its steps."""
    steps = (
        replace(
            step,
            submit_line=step.submit_line
            or lines.get((record.number, record.start, step.name), ""),
        )
        for step in record.steps
    )
    return replace(record, steps=tuple(steps))


def refused(name: str, ran: Ran, took_s: float) -> Answer[T]:
    """Tell a job that is not there, and a site without accounting, from trouble."""
    said = " ".join([ran.err, decoded(ran.out)[:4096]])
    if NO_JOB in said:
        return answered(name, (), "no such job", took_s)
    if any(words in said for words in NO_ACCOUNTING):
        return unreachable(name, "this cluster keeps no accounting", took_s)
    return unreachable(name, ran.complaint, took_s)


def decoded(raw: bytes) -> str:
    """Text of a command's output; bytes that are no UTF-8 are shown as such."""
    return raw.decode("utf-8", errors="backslashreplace")


def past_argv(
    names: Sequence[str], since: float, until: float, delimiter: str
) -> list[str]:
    """How sacct is asked for the jobs of some nodes."""
    argv = ["sacct", "-X", "-n", "-P", "-a", f"--delimiter={delimiter}"]
    argv += ["-N", core.fold(names), "-S", stamp(since), "-E", stamp(until)]
    return [*argv, "-o", "JobID,State,ExitCode,ElapsedRaw,End,NodeList,User"]


def stamp(moment: float) -> str:
    """A time as sacct takes it in every release: local, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment))
