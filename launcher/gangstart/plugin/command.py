"""``gangstart plugin``: a table of verbs, each in a module of its own."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from gangstart.usage import Parser

if TYPE_CHECKING:
    from collections.abc import Callable


class Verb(NamedTuple):
    """Where a verb lives, and what it does in one line."""

    target: str
    summary: str

    def load(self) -> Callable[[list[str]], int]:
        """Import the verb's module, and only that one; its function takes the rest."""
        module, _, function = self.target.partition(":")
        loaded: Callable[[list[str]], int] = getattr(import_module(module), function)
        return loaded


#: To add a verb: `def main(argv: list[str]) -> int` in a module of this package, with
#: a gangstart.usage.Parser of its own, and a row here.
VERBS = {
    "path": Verb(
        "gangstart.plugin.path:main",
        "print the plugin's file for this machine's Slurm, or for another release",
    ),
    "install": Verb(
        "gangstart.plugin.install:main",
        "put the plugin in place and name it in plugstack.conf",
    ),
    "uninstall": Verb(
        "gangstart.plugin.uninstall:main",
        "take back what install wrote",
    ),
    "build": Verb(
        "gangstart.plugin.build:main",
        "compile the plugin for the Slurm headers of this machine",
    ),
}


def main(argv: list[str]) -> int:
    """Hand the rest of the line to the verb it begins with."""
    options = parser().parse_args(argv[:1])
    return VERBS[options.verb].load()(argv[1:])


def parser() -> Parser:
    """Build the parser of the first word."""
    width = max(map(len, VERBS))
    rows = [f"  {name:<{width}}  {verb.summary}" for name, verb in VERBS.items()]
    made = Parser(
        prog="gangstart plugin",
        usage="gangstart plugin VERB …",
        description="The SPANK plugin that this package brings.",
        epilog="\n".join([*rows, "", "gangstart plugin VERB --help says more"]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("verb", choices=VERBS, metavar="VERB", help="what to do")
    return made
