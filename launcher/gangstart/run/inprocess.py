"""The user's program in the interpreter that did the start, with MPI still initialised.

For programs that use mpi4py themselves: ``-m module`` or a script, as for python.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import runpy
import sys
import threading
from pathlib import Path

from gangstart.job import adopt, path_of_user
from gangstart.run.control import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangstart.run.world import World


def run_program(argv: Sequence[str], env: Mapping[str, str], world: World) -> None:
    """Run it to its end; a bad end ends this process, without waiting for MPI.

    The others learn of it from the process that watches this one: MPI_Abort may hang.
    """
    adopt(env)
    path_of_user()
    gc.freeze()
    gc.enable()
    rank = os.getpid()
    code = execute(list(argv))
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()  # noqa: SLF001 - this process ends by C's exit()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if code or os.getpid() != rank:  # a fork that came to its end here has no MPI
        os._exit(code)
    world.leave()


def execute(argv: list[str]) -> int:
    """Run a module or script as ``__main__``; its exit code, 1 for an exception."""
    number = unreadable(argv[0])
    if number:
        say(f"gangstart: run: cannot open {argv[0]}: {os.strerror(number)}\n")
        return 127 if number == errno.ENOENT else 126
    try:
        if argv[0] == "-m":
            sys.argv = argv[1:]
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = argv
            sys.path.insert(0, str(Path(argv[0]).resolve().parent))
            runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as asked:
        return exit_status(asked.code)
    except BaseException as error:  # noqa: BLE001 - the program's
        show(error)
        return 1
    return 0


def unreadable(script: str) -> int:
    """The errno that reading a script would give, 0 = it can be read, or is -m."""
    if script == "-m" or os.access(script, os.R_OK):
        return 0
    return errno.EACCES if os.path.exists(script) else errno.ENOENT


def show(error: BaseException) -> None:
    """Show the program's exception as python would: from its own first line on."""
    ours = {__file__, runpy.run_path.__code__.co_filename}
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def exit_status(code: object) -> int:
    """What python makes of the argument of sys.exit()."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1
