"""docs/security.md promises nothing that no test keeps."""

from __future__ import annotations

import re

from repo import ROOT, kept, text

DOCUMENT = ROOT / "docs" / "security.md"
NAMED = re.compile(r"`(test_\w+)`")


def statements() -> list[str]:
    """The list items of the document, each in one line."""
    items = re.findall(r"^- .*(?:\n  .*)*", text(DOCUMENT), re.MULTILINE)
    return [" ".join(item.split()) for item in items]


def test_every_test_that_is_named_exists() -> None:
    tests = {
        name
        for path in kept()
        if path.name.startswith("test_") and path.suffix == ".py"
        for name in re.findall(r"^def (test_\w+)", text(path), re.MULTILINE)
    }
    named = set(NAMED.findall(text(DOCUMENT)))

    assert len(named) > 40
    assert named - tests == set()


def test_every_statement_names_its_test_or_is_a_limit() -> None:
    bare = [
        item
        for item in statements()
        if not NAMED.search(item) and not item.startswith("- **Limit.**")
    ]

    assert bare == []
