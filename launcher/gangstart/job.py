"""The environment of this process: the only module that reads or copies it."""

from __future__ import annotations

import contextlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Starts a module of this very package in a fresh interpreter, whatever the
#: caller's directory or PYTHONPATH holds (a user's own json.py, for instance).
BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from importlib import import_module; "
    "sys.exit(import_module(sys.argv[2]).main(sys.argv[3:]))"
)


_path: list[str] = []  # as Python made it, once it was changed


def library_first() -> None:
    """Find our modules whatever PYTHONPATH or the current folder holds.

    The standard library comes before PYTHONPATH, where a user's own json.py may be, and
    the current folder, which an empty word in PYTHONPATH stands for, after everything:
    an mpi4py that a site offers by PYTHONPATH is still preferred.
    """
    _path[:] = sys.path
    library = os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib is slow to import
    first = {library, f"{library}/lib-dynload"}
    here = {""}
    with contextlib.suppress(FileNotFoundError):  # it was removed
        here.add(os.getcwd())  # noqa: PTH109 - likewise
    sys.path.sort(key=lambda folder: (folder not in first) + (folder in here))


def path_of_user() -> None:
    """Undo library_first() for a program of the user."""
    sys.path[:] = _path or sys.path


def environ() -> Mapping[str, str]:
    """Return the environment of this process, to read."""
    return os.environ


def adopt(env: Mapping[str, str]) -> None:
    """Make `env` the environment of this process."""
    os.environ.clear()
    os.environ.update(env)


def child_env(
    base: Mapping[str, str] | None = None, **changes: str | None
) -> dict[str, str]:
    """Copy `base` (default: this process's environment) for a child; None removes."""
    env = dict(os.environ if base is None else base)
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def module_argv(module: str, *args: str) -> list[str]:
    """Argument vector that runs `module.main(args)` in a fresh, isolated Python."""
    from pathlib import Path  # noqa: PLC0415 - slow to import, and seldom needed

    root = str(Path(__file__).resolve().parent.parent)
    return [sys.executable, "-I", "-c", BOOT, root, module, *args]
