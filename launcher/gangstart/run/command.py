"""The gangstart run command: verify the start, then run the program."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time

from gangstart import core
from gangstart.errors import GangstartError
from gangstart.gpuanswer import GpuWord
from gangstart.job import environ
from gangstart.record import Record
from gangstart.run.child import KNOWN_S, Child, Runner, spawn
from gangstart.run.control import NoControl, connect, say, settle
from gangstart.run.guard import hold_streams
from gangstart.run.inside import recognise
from gangstart.run.launched import launched, number
from gangstart.run.marks import Marks
from gangstart.run.member import Ready
from gangstart.run.place import temporary
from gangstart.run.plan import clean
from gangstart.run.spool import Held
from gangstart.run.startup import Refused, Startup
from gangstart.site import defaults, slurm_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from gangstart.run.control import Control
    from gangstart.run.launched import Launched
    from gangstart.run.startup import Released
    from gangstart.usage import Parser

GRACE_S = 30.0
LEAVING = (signal.SIGTERM, signal.SIGHUP)
FORWARD_S = 0.5  # a launcher that hears of the end drops lines it has not passed on
LOOK_SHARE = 0.8  # of T: the GPUs' answer has to count before T is over
EPILOG = """\
SPEC is the one of srun --gang-start[=SPEC]; before it are read the site's defaults in
plugstack.conf, if this machine has one, and SLURM_GANG_START:
{keys}

exit codes: the program's own (128 + signal); of a refused start 75 not everybody
arrived, 69 a node or GPU is not fit (health=require), 78 option, configuration or
environment. When a rank fails, all ranks end with its exit code.
"""


class Asked(Record):
    """The command line."""

    spec: core.Spec
    program: list[str]
    grace: float = GRACE_S
    keep_mpi: bool = False
    in_process: bool = False


def seconds(text: str) -> float:
    """A number of seconds, 0..86400."""
    from argparse import ArgumentTypeError  # noqa: PLC0415 - see plain_line

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86400:  # noqa: PLR2004 - a day
        raise ArgumentTypeError(f"{text!r}: seconds, 0 to 86400, are allowed")
    return value


def parser() -> Parser:
    """Build the command line of this verb."""
    from argparse import RawDescriptionHelpFormatter  # noqa: PLC0415 - see plain_line

    from gangstart.usage import Parser  # noqa: PLC0415 - see plain_line

    made = Parser(
        prog="gangstart run",
        usage="gangstart run [SPEC] [--grace SECONDS] [--keep-mpi | --in-process] "
        "-- COMMAND …",
        description="Verify that every rank is present, wired and healthy, then run "
        "COMMAND on each. Start it with mpirun, mpiexec or srun --mpi=TYPE.",
        epilog=EPILOG.format(keys=core.spec_help().rstrip()),
        formatter_class=RawDescriptionHelpFormatter,
    )
    made.add_argument("spec", nargs="?", metavar="SPEC", help="how to start")
    made.add_argument(
        "--grace", type=seconds, default=GRACE_S, metavar="SECONDS",
        help="from SIGTERM to SIGKILL when the ranks are ended (default: 30)",
    )  # fmt: skip
    ways = made.add_mutually_exclusive_group()
    ways.add_argument(
        "--keep-mpi",
        action="store_true",
        help="leave the launcher's PMI and MPI variables in COMMAND's environment",
    )
    ways.add_argument(
        "--in-process",
        action="store_true",
        help="COMMAND is a Python script, or -m and a module, that uses mpi4py itself: "
        "run it in the interpreter that did the start, MPI still initialised",
    )
    return made


def parse(argv: list[str], env: Mapping[str, str]) -> Asked:
    """Read the command line; the program starts after --."""
    own, dashes, program = split(argv)
    if program and plain_line(own):
        return Asked(spec_of(own[0] if own else None, env), program)
    line = parser()
    found = line.parse_args(own)
    if not dashes or not program:
        line.error("say what to run after --: gangstart run [SPEC] -- COMMAND …")
    if found.in_process and program[0][:1] == "-" and program[:2][:-1] != ["-m"]:
        line.error(f"--in-process runs a script, or -m and a module, not {program[0]}")
    spec = spec_of(found.spec, env)
    return Asked(spec, program, found.grace, found.keep_mpi, found.in_process)


def plain_line(own: list[str]) -> bool:
    """Whether there is nothing to parse: no option, at most a SPEC.

    Each rank reads its command line, and argparse costs it 5 ms.
    """
    return len(own) <= 1 and not any(word.startswith("-") for word in own)


def spec_of(given: str | None, env: Mapping[str, str]) -> core.Spec:
    """The command line's SPEC wins over the environment's, that over the site's."""
    own = env.get("SLURM_GANG_START") or "on"
    return core.parse_spec(own, given or "on", arguments=defaults(env))


def split(argv: list[str]) -> tuple[list[str], bool, list[str]]:
    """Our own arguments, whether there was a --, and the program's."""
    if "--" not in argv:
        return argv, False, []
    at = argv.index("--")
    return argv[:at], True, argv[at + 1 :]


def look(
    told: Launched, spec: core.Spec, marks: Marks, env: Mapping[str, str]
) -> tuple[GpuWord | None, tuple[str, ...]]:
    """One rank of each node looks at its GPUs: what it found, and their UUIDs."""
    first = marks.elect() if told.local_rank is None else told.local_rank == 0
    if spec.health == "off" or not first:
        return None, ()
    from gangstart.gpulook import Place, measure  # noqa: PLC0415 - only this rank does

    granted = env.get("SLURM_STEP_GPUS") or env.get("SLURM_JOB_GPUS") or ""
    try:
        found = measure(
            "start",
            place=Place(conf=spec.conf, probe=spec.probe),
            devices=granted.split(",") if granted else None,
            deadline_s=spec.timeout_s * LOOK_SHARE,
        )
    except GangstartError as error:  # the site's policy: the node's word, as srun's
        return GpuWord(why=error.message), ()
    uuids = [str(gpu.get("uuid") or "") for gpu in found.event.get("gpus", [])]
    return found.word, tuple(uuids) if all(uuids) else ()


def main(argv: list[str]) -> NoReturn:
    """Run the command and end this process, in the program's exit code or a refusal's.

    At once: to take apart an interpreter of which nothing is left costs a rank 10 ms.
    """
    hold_streams()
    code = run(argv)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError):  # nobody reads it
            stream.flush()
    os._exit(code)


def run(argv: list[str]) -> int:
    """Run the command; the exit code is the program's, or that of a refusal."""
    parent = os.getppid()
    env = environ()
    asked = parse(argv, env)
    inside = recognise(env)
    if inside is not None:
        for sentence in inside.warnings:
            say(f"gang-start: warning: {sentence}\n")
        return attend(asked, dict(env), parent)
    if not asked.spec.on:
        return attend(asked, dict(env), parent)
    try:
        return start(asked, env, parent)
    except Refused as refused:
        time.sleep(refused.wait_s)
        say(refused.text)
        if refused.abort or pmi_of_mpiexec(env) is not None:
            # mpiexec shall print our lines before it kills everybody.
            time.sleep(FORWARD_S if refused.text else 2 * FORWARD_S)
            abort_at_launcher(env, refused.code)
        return refused.code


def pmi_of_mpiexec(env: Mapping[str, str]) -> int | None:
    """The descriptor on which MPICH's mpiexec listens; None under another launcher."""
    return number(env, "PMI_FD") if "MPI_LOCALRANKID" in env else None


def abort_at_launcher(env: Mapping[str, str], code: int) -> None:
    """Tell MPICH's mpiexec the exit code, in the words of MPI_Abort (PMI-1).

    It kills all ranks as soon as one of them goes without a goodbye, and would then end
    with the status of a rank that it has killed.
    """
    fd = pmi_of_mpiexec(env)
    if fd is None:
        return
    with contextlib.suppress(OSError):  # a launcher that is gone needs no word
        os.write(fd, f"cmd=abort exitcode={code}\n".encode())


def _leave(number: int, _frame: object) -> None:
    """End the start in order; the worker is ended by the kernel."""
    raise SystemExit(128 + number)


def attend(asked: Asked, env: Mapping[str, str], parent: int) -> int:
    """Run the program without a start of our own."""
    made = dict(env) if asked.keep_mpi or asked.in_process else clean(env)
    python = [sys.executable] if asked.in_process else []
    child = spawn([*python, *asked.program], made)
    control = NoControl()
    return Runner(child, control, asked.grace, rank=-1, parent=parent).run()


def start(asked: Asked, env: Mapping[str, str], parent: int) -> int:
    """Start with all the others, then run the program; raises Refused."""
    began = time.monotonic()
    gc.disable()  # short, and a fork copies every page that a search has touched
    script = tuple(asked.program) if asked.in_process else ()
    told = launched(env)
    marks = Marks(told.start, temporary(env))
    for leaving in LEAVING:
        if signal.getsignal(leaving) != signal.SIG_IGN:  # nohup, for one
            signal.signal(leaving, _leave)
    try:
        gpu, uuids = look(told, asked.spec, marks, env)
        if told.rank is not None:
            marks.add(told.rank, told.local_rank)
        release = slurm_version() if told.job is not None and not told.rank else ""
        ready = Ready(
            told, asked.spec, asked.program[0], began, gpu, uuids, script, release
        )
        startup = Startup(ready, marks)
        released = startup.run(env)
    finally:
        marks.close()
    gc.freeze()  # what is there stays: the first search shall not begin with it
    gc.enable()
    held = Held(released.set.get("GANGSTART_SPOOL", ""))
    control, warning = connect(released)
    say(warning)
    try:
        if script:
            child = Child(startup.go_on(), startup.watcher)
        else:
            child = command(asked, env, released, control)
        runner = Runner(child, control, asked.grace, rank=released.rank, parent=parent)
        code = runner.run()
    finally:
        held.close()
    if script and control.first is not None and pmi_of_mpiexec(env) is not None:
        # MPI is not finalized: mpiexec would kill all and end with that signal.
        time.sleep(FORWARD_S)
        abort_at_launcher(env, code)
    return code


def command(
    asked: Asked, env: Mapping[str, str], released: Released, control: Control
) -> Child:
    """Start the program as a command; one that cannot be executed is told to all."""
    planned = {k: v for k, v in env.items() if k not in released.unset}
    planned |= released.set
    try:
        return spawn(asked.program, planned if asked.keep_mpi else clean(planned))
    except GangstartError as error:
        control.ended(error.exit_code, error.message)
        settle(control, KNOWN_S)
        control.close()
        where = f"rank {released.rank} on {released.node}"
        raise GangstartError(
            f"{error.message} ({where})", exit_code=error.exit_code
        ) from error
