"""The argument parser of every subcommand: a bad argument is one sentence."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Parser(argparse.ArgumentParser):
    """argparse, with errors raised as GangstartError (exit code 2)."""

    def error(self, message: str) -> NoReturn:
        """Raise the parser's complaint as one sentence that names the help."""
        command = self.prog.removeprefix("gangstart").strip()
        where = f"{command}: " if command else ""
        raise GangstartError(f"{where}{message} (see {self.prog} --help)", exit_code=2)

    def actions(self) -> Sequence[argparse.Action]:
        """Every option and argument, in their order."""
        return self._actions
