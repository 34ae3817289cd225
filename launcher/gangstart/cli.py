"""The gangstart command: a table of verbs, and the one place where errors end."""

from __future__ import annotations

import codecs
import gc
import os
import sys
from importlib import import_module

from gangstart import __version__
from gangstart.errors import GangstartError
from gangstart.job import library_first
from gangstart.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXIT_USAGE = 2
EXIT_INTERRUPT = 130
EXIT_BROKEN_PIPE = 141
#: What our own lines use beyond ASCII.
PLAIN = {"“": '"', "”": '"', "…": "...", "·": "-", "–": "-", "—": "-", "µ": "u"}


class Command(Record):
    """One verb: what the user types, where it lives, what it does in one line."""

    name: str
    target: str
    summary: str

    def load(self) -> Callable[[list[str]], int]:
        """Import the verb's module, and only that one; its function takes the rest."""
        module, _, function = self.target.partition(":")
        loaded: Callable[[list[str]], int] = getattr(import_module(module), function)
        if not gc.isenabled():  # see main()
            gc.freeze()
            gc.enable()
        return loaded


#: To add a verb: write `def main(argv: list[str]) -> int` in its module, with its own
#: gangstart.usage.Parser, raise GangstartError for what the user can act on, and add
#: a row here.
COMMANDS = (
    Command(
        "run",
        "gangstart.run.command:main",
        "the start of srun --gang-start under any MPI launcher, then your program",
    ),
    Command(
        "report",
        "gangstart.report:main",
        "the start report of a step: who came when, and why it was refused",
    ),
    Command(
        "history",
        "gangstart.history.command:main",
        "nodes across jobs: who is late, refused or found faulty beyond chance",
    ),
    Command(
        "triage",
        "gangstart.triage.command:main",
        "why a job ended, with proof and the next thing to type",
    ),
    Command(
        "mcp",
        "gangstart.mcp.command:main",
        "the same answers for AI agents: a Model Context Protocol server over stdio",
    ),
    Command(
        "check",
        "gangstart.check.command:main",
        "this node: GPUs, leftovers of ended jobs, open dashboards, RDMA links",
    ),
    Command(
        "env",
        "gangstart.envcommand:main",
        "the variables that gang start gives this task, and why",
    ),
    Command(
        "plugin",
        "gangstart.plugin.command:main",
        "the SPANK plugin's file for a Slurm, and one compiled for a newer Slurm",
    ),
    Command(
        "doctor",
        "gangstart.doctor.command:main",
        "is gang start installed right, here and on every node",
    ),
    Command(
        "completion",
        "gangstart.completion:main",
        "completion of this command for bash or zsh",
    ),
    Command(
        "cluster",
        "gangstart.cluster.command:main",
        "a private multi-node Slurm on this machine, to try and test with",
    ),
)


def main(
    argv: Sequence[str] | None = None, commands: Sequence[Command] = COMMANDS
) -> int:
    """Run the command line; every failure ends here in one sentence and a code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:  # this process is ours
        library_first()
        gc.disable()  # an import makes no garbage, and is searched for it all the time
    speakable()
    try:
        code = dispatch(arguments, commands)
        sys.stdout.flush()
    except GangstartError as error:
        complain(error.message)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPT
    except BrokenPipeError:
        # The reader went away, as `| head` does. Nothing may be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        complain(os_sentence(error))
        return 1
    return code


def speakable() -> None:
    """See to it that whatever is said can be printed.

    A locale's encoding may lack our quotes or a log's letters, and a caller may have
    closed standard output or error: neither is a reason to end in a traceback.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - for good
        elif getattr(stream, "errors", None) == "strict":
            codecs.register_error("gangstart.spelt", spelt)
            stream.reconfigure(errors="gangstart.spelt")


def spelt(error: UnicodeError) -> tuple[str, int]:
    """Spell out what an encoding lacks: our own signs in ASCII, others as escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    made = "".join(
        PLAIN.get(sign) or sign.encode("ascii", "backslashreplace").decode()
        for sign in lacking
    )
    return made, error.end


def dispatch(arguments: list[str], commands: Sequence[Command]) -> int:
    """Pick the verb and hand it the rest of the line."""
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(help_text(commands))
        return 0 if arguments else EXIT_USAGE
    if arguments[0] in {"-V", "--version"}:
        print(f"gangstart {__version__}")
        return 0
    return find(arguments[0], commands).load()(arguments[1:])


def find(name: str, commands: Sequence[Command]) -> Command:
    """Return the verb called `name`; an unknown one names its closest matches."""
    for command in commands:
        if command.name == name:
            return command
    import difflib  # noqa: PLC0415 - slow to import, and only mistakes need it

    names = [command.name for command in commands]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    kind = "option" if name.startswith("-") else "command"
    hint = f"did you mean {' or '.join(close)}?" if close else f"use {', '.join(names)}"
    raise GangstartError(
        f"there is no {kind} {name!r}: {hint} (see gangstart --help)",
        exit_code=EXIT_USAGE,
    )


def help_text(commands: Sequence[Command]) -> str:
    """List the verbs, one line each."""
    width = max(len(command.name) for command in commands)
    rows = [f"  {command.name:<{width}}  {command.summary}" for command in commands]
    return "\n".join(
        [
            "usage: gangstart COMMAND …",
            "",
            *rows,
            "",
            "gangstart COMMAND --help says more; gangstart --version names the version",
        ]
    )


def complain(sentence: str) -> None:
    """Say what is wrong; a stream that takes nothing does not change the exit code."""
    if sys.stderr is None:  # closed: there is nobody to tell
        return
    try:
        sys.stderr.write(f"gangstart: {sentence}\n")  # one write: ranks do not mix
        sys.stderr.flush()
    except OSError:  # nor may anything be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def os_sentence(error: OSError) -> str:
    """Say what the operating system refused, and on which file."""
    reason = error.strerror or str(error)
    return f"{reason}: {error.filename}" if error.filename else reason
