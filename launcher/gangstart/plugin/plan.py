"""What has to change on a machine to have the plugin installed; reads, never writes."""

from __future__ import annotations

import difflib
import hashlib
import re
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart import plugstack, stackfile
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gangstart.plugin.place import Place

PROBE = "gangstart-probe"
CONF = "gangstart.conf"
#: Behind any other file of the folder, for when one there starts containers.
LATE_CONF = "zz-gangstart.conf"
OWN_LINE = re.compile(rf"^\s*(\w+)\s+(\S*{re.escape(stackfile.PLUGIN)})([^#\n]*)")
PROGRAM, TEXT = 0o755, 0o644
SHOWN = 12


@dataclass(frozen=True)
class Change:
    """One file: what it holds (None: it is not there) and what it should."""

    path: Path  # as the machine sees it
    old: bytes | None
    new: bytes | None
    mode: int

    @property
    def needed(self) -> bool:
        """Whether there is anything to do."""
        return self.old != self.new


@dataclass(frozen=True)
class Files:
    """What is to be installed."""

    plugin: bytes
    probe: bytes
    template: str  # plugstack.conf.d/gangstart.conf as it is shipped


def digest(content: bytes) -> str:
    """SHA-256 as 64 digits."""
    return hashlib.sha256(content).hexdigest()


def read(place: Place, path: Path) -> bytes | None:
    """Contents of a file of the machine; None if there is none."""
    try:
        return place.real(path).read_bytes()
    except FileNotFoundError:
        return None


def changes(
    place: Place, files: Files, site: Mapping[str, str], ours: Mapping[Path, str]
) -> list[Change]:
    """Every file, in the order in which they have to be written.

    `site`: arguments of plugstack.conf to set; `ours`: files that were installed
    before, and their digests.
    """
    programs = ((PROBE, files.probe), (stackfile.PLUGIN, files.plugin))
    made = [
        Change(path, read(place, path), content, PROGRAM)
        for path, content in ((place.libdir / name, data) for name, data in programs)
    ]
    return made + conf_changes(place, files.template, site, ours)


def conf_changes(
    place: Place, template: str, site: Mapping[str, str], ours: Mapping[Path, str]
) -> list[Change]:
    """Write, or correct, the line in plugstack.conf or a file that it includes."""
    # Through a link it is found by another name than it was written by.
    names = {place.real(path): path for path in ours}
    listed = [
        row._replace(path=names.get(place.real(row.path), row.path))
        for row in plugstack.ours(rows(place))
    ]
    if len(listed) > 1:
        where = " and ".join(map(str, listed))
        raise GangstartError(
            f"plugin: it is listed {len(listed)} times, {where}: remove all but one"
        )
    target = target_of(place)
    stack = read(place, place.stack)
    now = place.stack if place.inline else target
    if listed and (listed[0].path not in ours or listed[0].path == now):
        # A line that somebody wrote stays where it is.
        return [text_change(place, listed[0].path, template, site)]
    if place.inline:
        return [text_change(place, place.stack, "", site)]
    made = [text_change(place, target, template, site, like=listed)]
    if listed:
        path = listed[0].path
        made.append(Change(path, read(place, path), None, TEXT))
    if not covered(place, (stack or b"").decode(errors="replace"), target):
        added = (stack or b"") + (b"" if not stack or stack.endswith(b"\n") else b"\n")
        line = include_line(target)
        made.append(Change(place.stack, stack, added + line.encode(), TEXT))
    return made


def include_line(target: Path) -> str:
    """Return the line by which plugstack.conf takes in our file."""
    return f"{stackfile.INCLUDE} {target}\n"


def text_change(
    place: Place,
    path: Path,
    template: str,
    site: Mapping[str, str],
    like: Sequence[plugstack.Row] = (),
) -> Change:
    """Set our line in a file, or add it; what else the file says stays."""
    old = read(place, path)
    text = template if old is None else old.decode(errors="surrogateescape")
    lines = text.splitlines(keepends=True)
    found = [i for i, line in enumerate(lines) if OWN_LINE.match(line)]
    mode, kept = "optional", dict(plugstack.pairs(like[0])) if like else {}
    if found:
        match = OWN_LINE.match(lines[found[0]])
        assert match  # noqa: S101 - it was found by this
        mode = match[1]
        kept |= dict(word.partition("=")[::2] for word in match[3].split())
    arguments = [f"{key}={value}" for key, value in {**kept, **site}.items()]
    words = [mode, place.named, *arguments]
    fresh = " ".join(words) + "\n"
    if found:
        lines[found[0]] = reworded(lines[found[0]], words)
    else:
        lines.append(fresh if not lines or lines[-1].endswith("\n") else "\n" + fresh)
    new = "".join(lines).encode(errors="surrogateescape")
    return Change(path, old, new, TEXT)


def reworded(line: str, words: Sequence[str]) -> str:
    """Return a line with other words; its comment and its end stay.

    One that has these words already stays as it is, blanks and all.
    """
    before, sharp, comment = line.partition("#")
    if before.split() == [*words]:
        return line
    body = line.rstrip("\r\n")
    note = [sharp + comment.rstrip("\r\n")] if sharp else []
    return " ".join([*words, *note]) + (line[len(body) :] or "\n")


def rows(place: Place) -> list[plugstack.Row]:
    """Lines of plugstack.conf, with paths as the machine sees them."""
    found = plugstack.rows(place.real(place.stack), root=place.root)
    return [
        row._replace(path=Path("/") / row.path.relative_to(place.root)) for row in found
    ]


def target_of(place: Place) -> Path:
    """Return the file for our line: the first that comes after container plugins."""
    choices = (
        place.parts / CONF,
        place.parts / LATE_CONF,
        place.stack.with_name("plugstack.gangstart.conf"),
    )
    return next((path for path in choices if comes_last(place, path)), choices[-1])


def comes_last(place: Place, target: Path) -> bool:
    """Whether no container plugin would be read after this file, nor it twice."""
    order = list(sequence(place, target))
    if order.count(target) > 1:
        return False
    if target not in order:
        return True  # it gets an include line at the end
    behind = order[order.index(target) + 1 :]
    return not any(isinstance(one, str) for one in behind)


def sequence(place: Place, target: Path) -> Iterator[Path | str]:
    """Yield container plugins (text) and our file (its path), in Slurm's order."""
    text = (read(place, place.stack) or b"").decode(errors="replace")
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) < 2:  # noqa: PLR2004 - a plugin or a file
            continue
        if words[0] != stackfile.INCLUDE:
            if plugstack.CONTAINERS.fullmatch(Path(words[1]).name):
                yield words[1]
            continue
        for path in included(place, words[1], target):
            if path == target:
                yield path
            else:
                real = place.real(path)
                inner = plugstack.rows(real, root=place.root)
                yield from (row.file for row in plugstack.containers(inner))


def included(place: Place, pattern: str, target: Path) -> list[Path]:
    """Files that an include line stands for, ours with them if it would match."""
    real = place.real(place.stack)
    found = plugstack.included_by(real, pattern, root=place.root)
    paths = {Path("/") / path.relative_to(place.root) for path in found}
    whole = str((place.stack.parent / pattern).absolute())
    if fnmatch(str(target), whole):
        paths.add(target)
    return sorted(paths)


def covered(place: Place, text: str, target: Path) -> bool:
    """Whether an include line of plugstack.conf takes our file in."""
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    patterns = [w[1] for w in lines if len(w) > 1 and w[0] == stackfile.INCLUDE]
    return any(target in included(place, one, target) for one in patterns)


def describe(change: Change) -> list[str]:
    """Return a change as lines for people: a diff of text, digests of programs."""
    if change.mode == PROGRAM:
        return [describe_program(change)]
    before, after = (
        (data or b"").decode(errors="replace").splitlines()
        for data in (change.old, change.new)
    )
    old = "/dev/null" if change.old is None else str(change.path)
    new = "/dev/null" if change.new is None else str(change.path)
    return list(difflib.unified_diff(before, after, old, new, n=2, lineterm=""))


def describe_program(change: Change) -> str:
    """Return what happens to a program in one line."""
    verb = "new" if change.old is None else "replaced"
    if change.new is None:
        return f"{change.path}: removed"
    was = f", was {digest(change.old)[:SHOWN]}…" if change.old is not None else ""
    now = f"{len(change.new) >> 10} KiB, SHA-256 {digest(change.new)[:SHOWN]}…"
    return f"{change.path}: {verb}, {now}{was}"
