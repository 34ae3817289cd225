"""Where a page goes: standard output, or a file that is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from argparse import ArgumentParser

STDOUT = "-"
EXIT_USAGE = 2


def add_option(parser: ArgumentParser) -> None:
    """Add --html to a verb's command line."""
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="also write one page with pictures that needs no network; - is standard "
        "output, and nothing else is printed",
    )


def check(verb: str, target: str, *, json: bool) -> None:
    """Refuse early what cannot be written, before the work is done.

    Raises:
        GangstartError: two answers on standard output, or no place for a file.

    """
    if target == STDOUT and json:
        raise GangstartError(
            f"{verb}: --json and --html - would both go to standard output: name a "
            "file with --html FILE",
            exit_code=EXIT_USAGE,
        )
    if target == STDOUT:
        return
    path = Path(target)
    if not target or path.is_dir():
        why = "is a folder" if target else "is empty"
        raise refused(verb, target, f"{why}, not a file's name")
    if path.exists() and not path.is_file():
        raise refused(verb, target, "is no plain file: --html - writes to a pipe")
    if not path.parent.is_dir():
        raise refused(verb, target, f"there is no folder {path.parent}")


def refused(verb: str, target: str, why: str) -> GangstartError:
    """Build the sentence about a file that cannot be written."""
    return GangstartError(f"{verb}: --html {target!r}: {why}", exit_code=EXIT_USAGE)


def write(verb: str, target: str, text: str) -> None:
    """Write a page; a file is replaced only by a whole one.

    Raises:
        GangstartError: it cannot be written there.

    """
    data = text.encode()
    if target == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    path = Path(target)
    try:
        replace(path, data)
    except OSError as error:
        raise refused(verb, target, str(error.strerror)) from error


def replace(path: Path, data: bytes) -> None:
    """Put data at a path at once, readable as the user's umask has it."""
    fd, made = tempfile.mkstemp(prefix=".gangstart-", dir=path.parent)
    try:
        with open(fd, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(file.fileno(), 0o666 & ~mask)
        Path(made).replace(path)
    except BaseException:  # Ctrl-C too leaves nothing behind
        with contextlib.suppress(OSError):  # why it could not be written is told
            Path(made).unlink()
        raise
