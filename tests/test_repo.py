"""The repository agrees with itself: one version, real verbs, nothing half done."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import gangstart
from repo import ROOT, kept, shown, text

if TYPE_CHECKING:
    from pathlib import Path

# Words that have no place in a kept file, each with the reason that a failure shows.
# They are put together here so that this file does not find itself.
MACHINE = "a path of one machine"
BANNED = {
    r"\b(?:TO" + r"DO|FIX" + r"ME|HA" + r"CK)\b": "finish it or leave it out",
    r"\bXX" + r"X\b": "say what is meant",
    r"(?i)\bnot " + r"implemented\b|NotImplemented" + r"Error": "no stubs",
    r"(?i)\bplace" + r"holder\b": "no stubs",
    r"(?<![\w.*])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me)/": MACHINE,
}
VERB = re.compile(r"^([a-z]+):.*## ", re.MULTILINE)
MENTIONED = re.compile(r"\bmake ([a-z]+)\b(?=[`*\s.,:;)&]|$)")


def version() -> str:
    """The version in pyproject.toml."""
    (found,) = re.findall(
        r'^version = "(.+)"$', text(ROOT / "pyproject.toml"), re.MULTILINE
    )
    return str(found)


def verbs() -> set[str]:
    """The verbs of the Makefile."""
    return set(VERB.findall(text(ROOT / "Makefile")))


def code_spans(document: str) -> str:
    """What a Markdown document shows as code: there a verb is a command."""
    return "\n".join(
        re.findall(r"^```.*?^```|`[^`\n]+`", document, re.MULTILINE | re.DOTALL)
    )


def test_the_version_is_the_same_everywhere() -> None:
    manual = text(ROOT / "docs" / "man" / "gangstart.1")

    assert gangstart.__version__ == version()
    assert f"gangstart {version()}" in manual.splitlines()[0]


def test_the_newest_entry_of_news_is_this_version() -> None:
    headings = re.findall(r"^gangstart (\S+)", text(ROOT / "NEWS"), re.MULTILINE)

    assert headings[0] == version()
    assert len(headings) == len(set(headings)), "a version has two entries"


def test_every_documented_verb_exists() -> None:
    documents = text(ROOT / "README.md") + text(ROOT / "CONTRIBUTING.md")
    mentioned = set(MENTIONED.findall(code_spans(documents)))

    assert mentioned >= {"demo", "test"}, "the README starts with these"
    assert mentioned - verbs() == set()


def test_contributing_names_every_verb() -> None:
    document = code_spans(text(ROOT / "CONTRIBUTING.md"))

    assert verbs() - set(MENTIONED.findall(document)) == set()


def is_record(path: Path) -> bool:
    """Whether a file records what other machines wrote: logs have such paths."""
    return path.suffix == ".json" and path.is_relative_to(ROOT / "tests" / "cases")


def test_no_kept_file_has_a_banned_word() -> None:
    found = [
        f"{shown(path)}:{number}: {line.strip()[:80]}: {why}"
        for path in kept()
        for number, line in enumerate(text(path).splitlines(), 1)
        for word, why in BANNED.items()
        if re.search(word, line) and not (why == MACHINE and is_record(path))
    ]

    assert found == []
