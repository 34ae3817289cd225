"""Writes what manual pages have from tables: options, keys and checks (make man).

A page keeps its prose; what lies between ``generated: NAME`` and ``end of generated``
is written anew. ``--check`` only compares, and ends in 1 if a page is not up to date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart import __version__, commandline, core, gpucheck

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangstart.commandline import Option, Verb

PAGES = Path(__file__).resolve().parents[1] / "docs" / "man"
REGION = re.compile(
    r'(^\.\\" generated: (?P<name>[a-z ]+)\n).*?(^\.\\" end of generated\n)',
    re.MULTILINE | re.DOTALL,
)
KEY = re.compile(r"  (\S+)\s+(.+)")
VERSION = re.compile(r'(?<=^\.TH )(\S+ \S+ \S+) "gangstart [^"]*"', re.MULTILINE)


def escaped(text: str) -> str:
    """Return a text as roff wants it."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def item(head: str, text: str) -> str:
    """One entry of a list."""
    sentence = text[:1].upper() + text[1:]
    end = "" if sentence.endswith((".", ")")) else "."
    return f".TP\n{head}\n{escaped(sentence)}{end}\n"


def option_head(option: Option) -> str:
    """Names in bold, what follows in italics."""
    names = ", ".join(f"\\fB{escaped(name)}\\fR" for name in option.names)
    takes = f"\\fI{escaped(option.takes)}\\fR" if option.takes else ""
    return " ".join(filter(None, (names, takes)))


def options() -> str:
    """Every verb's options."""
    return "".join(verb_text(one) for top in commandline.verbs() for one in top.all())


def verb_text(verb: Verb) -> str:
    """One verb; those that only have verbs below them are left out."""
    listed = [o for o in verb.options if "--help" not in o.names]
    if verb.verbs or not (listed or verb.summary):
        return ""
    rows = "".join(item(option_head(o), o.help) for o in listed)
    return f".SS gangstart {' '.join(verb.words)}\n{escaped(verb.summary)}.\n{rows}"


def keys(site: int) -> str:
    """Keys of a SPEC (0), or those of plugstack.conf only (1)."""
    parts = re.split(r"^in plugstack\.conf only:\n", core.spec_help(), flags=re.M)
    rows = (KEY.fullmatch(line) for line in parts[site].splitlines())
    return "".join(item(key_head(m[1]), m[2]) for m in rows if m)


def key_head(form: str) -> str:
    """NAME=VALUES, the name in bold."""
    name, _, takes = form.partition("=")
    return f"\\fB{escaped(name)}=\\fI{escaped(takes)}\\fR"


def checks() -> str:
    """Rows of the table of GPU checks."""
    return "".join(
        f"{c.id};{c.severity};{c.limit if c.unit else '-'};{c.grace_s};{c.retries};"
        f"T{{\n{c.title}{f' ({c.unit})' if c.unit else ''}\nT}}\n"
        for c in gpucheck.catalogue()
    )


GENERATED: dict[str, Callable[[], str]] = {
    "options": options,
    "keys": lambda: keys(0),
    "site keys": lambda: keys(1),
    "checks": checks,
}


def page(text: str) -> str:
    """Return a page with its generated parts anew, and the version."""
    fresh = REGION.sub(lambda m: m[1] + GENERATED[m["name"]]() + m[3], text)
    return VERSION.sub(rf'\1 "gangstart {__version__}"', fresh)


def main(argv: list[str]) -> int:
    """Write, or compare."""
    old = []
    for path in sorted(PAGES.glob("*.[158]")):
        text = path.read_text()
        fresh = page(text)
        if fresh != text:
            old.append(path.name)
            if argv != ["--check"]:
                path.write_text(fresh)
    if old and argv == ["--check"]:
        sys.stderr.write(f"man: {', '.join(old)} not up to date: run make man\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
