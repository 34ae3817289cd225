"""The command line as data: every verb with its options, from the parsers themselves.

Completion, manual pages and the tests of the documents are made from it, so that none
of them knows an option that is not there, or lacks one that is.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gangstart import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangstart.usage import Parser

FILES = ("FILE", "PATH", "DIR", "SOCKET")


@dataclass(frozen=True)
class Option:
    """One option, or an argument without a name."""

    names: tuple[str, ...]  # empty for an argument
    takes: str  # what follows it, "" for a switch
    help: str
    choices: tuple[str, ...] = ()

    @property
    def wants_file(self) -> bool:
        """Whether what follows is a file or folder."""
        return self.takes in FILES


@dataclass(frozen=True)
class Verb:
    """A verb, or a verb of a verb."""

    words: tuple[str, ...]  # ("cluster", "up")
    summary: str
    options: tuple[Option, ...]
    verbs: tuple[Verb, ...] = ()

    def all(self) -> Iterator[Verb]:
        """Itself, and those below it."""
        yield self
        for verb in self.verbs:
            yield from verb.all()


def verbs() -> list[Verb]:
    """Every verb of the command."""
    return [verb_of(command) for command in cli.COMMANDS]


def verb_of(command: cli.Command) -> Verb:
    """Read one row of the command's table."""
    module = import_module(command.target.partition(":")[0])
    below = getattr(module, "VERBS", {})
    made = read(module.parser(), (command.name,), command.summary)
    if not below:
        return made
    inner = tuple(
        read(
            import_module(verb.target.partition(":")[0]).parser(),
            (command.name, name),
            verb.summary,
        )
        for name, verb in below.items()
    )
    return Verb(made.words, made.summary, (), inner)


def read(parser: Parser, words: tuple[str, ...], summary: str) -> Verb:
    """Read a parser and those below it."""
    options: list[Option] = []
    inner: list[Verb] = []
    for action in parser.actions():
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - no other way
            helps = {choice.dest: choice.help for choice in action._choices_actions}  # noqa: SLF001
            parsers: dict[str, Any] = action.choices or {}
            inner += [
                read(below, (*words, name), helps.get(name) or "")
                for name, below in parsers.items()
            ]
        else:
            options.append(option_of(action))
    return Verb(words, summary, tuple(options), tuple(inner))


def option_of(action: argparse.Action) -> Option:
    """Read one action."""
    choices = tuple(map(str, action.choices)) if action.choices else ()
    takes = "" if action.nargs == 0 else str(action.metavar or "|".join(choices))
    if not takes and action.nargs != 0:
        takes = action.dest.upper()
    text = (action.help or "") % vars(action)  # as argparse itself fills it in
    return Option(tuple(action.option_strings), takes, text, choices)
