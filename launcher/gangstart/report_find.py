"""Where start reports are kept, and which of them a request means.

Looked at in this order: the archive, the spool of this node, the user's own copies.
What cannot be read is passed over, but told when nothing was found.
"""

from __future__ import annotations

import os
import re
import stat
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gangstart import job, plugstack
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Iterator, Mapping

SPOOL = Path("/run/gangstart")
RIVALS_NAMED = 5
COMPLETE_WITHIN = 128  # the flag stands in the first bytes

WANTED = re.compile(r"(\d{1,10})(?:\.(\d{1,10}))?")
NAME = re.compile(r"(\d{1,10})\.(\d{1,10})")
#: The key cannot occur inside a string, whose quotes are escaped.
DECIDED = re.compile(rb'"decided_at":(\d{1,12}(?:\.\d{1,9})?)')
CLUSTER = re.compile(rb'"cluster":"([^"\\]{0,200})"')
HEAD_BYTES = 1 << 18
FILE_BYTES = 1 << 29


class Wanted(NamedTuple):
    """What the user asked for; None leaves it open."""

    job: int | None
    step: int | None

    def __str__(self) -> str:
        """Say it as Slurm's commands do."""
        if self.job is None:
            return "any step"
        return f"job {self.job}" if self.step is None else f"{self.job}.{self.step}"


class Found(NamedTuple):
    """A file that should hold a start report."""

    path: Path
    job: int
    step: int
    place: int
    modified: float


class Head(NamedTuple):
    """What tells reports of one step apart."""

    decided: float
    complete: bool


class Places(NamedTuple):
    """Where to look."""

    archive: Path | None
    spool: Path
    states: list[Path]
    denied: list[str]
    cluster: str = ""  # only reports of this one, "" = of all

    def __str__(self) -> str:
        """Name them for the sentence that nothing was found."""
        named = [
            f"the archive {self.archive}"
            if self.archive
            else "no archive (none is configured here)",
            f"the spool {self.spool}",
            *(f"your own copies in {state}" for state in self.states),
        ]
        said = f"{', '.join(named[:-1])} and {named[-1]}"
        denied = ", ".join(self.denied)
        return f"{said} (not readable: {denied})" if denied else said

    def entries(self, folder: Path) -> list[Path]:
        """Entries of a folder; none if it is not there or must not be read."""
        try:
            return sorted(folder.iterdir())
        except PermissionError:
            self.denied.append(str(folder))
        except OSError:
            pass
        return []


def parse_wanted(text: str | None) -> Wanted:
    """Read JOB or JOB.STEP."""
    if text is None:
        return Wanted(None, None)
    match = WANTED.fullmatch(text)
    if not match:
        raise GangstartError(
            f"report: {text[:60]!r} is not JOB or JOB.STEP, two numbers such as 7877.0 "
            "(for an array or heterogeneous job use the number that squeue -O JobID "
            "shows)",
            exit_code=2,
        )
    return Wanted(int(match[1]), None if match[2] is None else int(match[2]))


def find(wanted: Wanted, places: Places) -> tuple[Path, str]:
    """The newest report of what is meant, and a remark if there were others."""
    found = [
        one
        for one in candidates(wanted, places)
        if wanted.step is None or one.step == wanted.step
    ]
    if not found:
        raise GangstartError(
            f"report: there is no start report of {wanted}: looked at {places}; name "
            "the file with --file, or the archive with --archive DIR"
        )
    heads = {one: head_of(one) for one in found}
    newest = max(found, key=lambda one: (heads[one].decided, one.modified))
    meant = (newest.job, newest.step)
    same = [one for one in found if (one.job, one.step) == meant]
    decided = heads[newest].decided
    # The copies of one start differ only in how much they hold.
    copies = [one for one in same if heads[one].decided == decided]
    chosen = max(copies, key=lambda one: (heads[one].complete, -one.place))
    others = {heads[one].decided: one.path for one in same if one not in copies}
    return chosen.path, remark(meant, list(others.values()) if wanted.job else [])


def remark(meant: tuple[int, int], others: list[Path]) -> str:
    """What to say of other starts with the same JOB.STEP."""
    if not others:
        return ""
    named = ", ".join(str(path) for path in others[:RIVALS_NAMED])
    unnamed = len(others) - RIVALS_NAMED
    more = f" and {unnamed} more" if unnamed > 0 else ""
    return (
        f"{meant[0]}.{meant[1]} was also run elsewhere; this is the newest (--cluster "
        f"NAME chooses). Others: {named}{more}"
    )


def candidates(wanted: Wanted, places: Places) -> Iterator[Found]:
    """Every report of the wanted job, or of all."""
    sources: tuple[Iterable[Path], ...] = (
        archived(wanted, places),
        spooled(wanted, places),
        own_copies(places),
    )
    for place, paths in enumerate(sources):
        for path in paths:
            match = NAME.fullmatch(step_name(path))
            if not match or wanted.job not in (None, int(match[1])):
                continue
            modified = modified_at(path)
            if modified is not None and places.cluster in ("", cluster_of(path)):
                yield Found(path, int(match[1]), int(match[2]), place, modified)


def step_name(path: Path) -> str:
    """JOB.STEP that a path is about: a folder of that name, or a file JOB.STEP.json."""
    if path.name != "start.json":
        return path.name.removesuffix(".json")
    steps = [part for part in path.parts if NAME.fullmatch(part)]
    return steps[-1] if steps else ""


def step_folders(wanted: Wanted, base: Path, places: Places) -> Iterator[Path]:
    """Folders of the wanted job below a base."""
    prefix = "" if wanted.job is None else f"{wanted.job}."
    for folder in places.entries(base):
        if folder.name.startswith(prefix) and NAME.fullmatch(folder.name):
            yield folder


def archived(wanted: Wanted, places: Places) -> Iterator[Path]:
    """The complete report of each step; without one, what its nodes kept."""
    for folder in (
        step_folders(wanted, places.archive, places) if places.archive else ()
    ):
        complete = folder / "start.json"
        if modified_at(complete) is not None:
            yield complete
        else:
            yield from (node / "sys" / "start.json" for node in places.entries(folder))


def spooled(wanted: Wanted, places: Places) -> Iterator[Path]:
    """Reports of steps that this node still keeps."""
    for folder in step_folders(wanted, places.spool, places):
        yield folder / "sys" / "start.json"


def own_copies(places: Places) -> Iterator[Path]:
    """Copies that srun wrote for the user, one folder per cluster."""
    for cluster in chain.from_iterable(map(places.entries, places.states)):
        yield from places.entries(cluster)


def modified_at(path: Path) -> float | None:
    """When a plain file was written; None if there is none."""
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_mtime if stat.S_ISREG(info.st_mode) else None


def head_of(found: Found) -> Head:
    """What the first bytes of a report say of it; without a moment the file's own."""
    try:
        with found.path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        head = b""
    moment = DECIDED.search(head)
    return Head(
        decided=float(moment[1]) if moment else found.modified,
        complete=b'"complete":true' in head[:COMPLETE_WITHIN],
    )


def cluster_of(path: Path) -> str:
    """The cluster that a report names, "" if none."""
    try:
        with path.open("rb") as file:
            match = CLUSTER.search(file.read(HEAD_BYTES))
    except OSError:
        return ""
    return match[1].decode(errors="replace") if match else ""


def read(path: Path, most: int = FILE_BYTES) -> bytes:
    """Contents of a report; refuses what is no plain file of a sensible size."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise GangstartError(
            f"report: {path} cannot be read: {error.strerror}"
        ) from error
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        os.close(fd)
        raise GangstartError(f"report: {path} is not a plain file")
    with os.fdopen(fd, "rb") as file:
        if info.st_size > most:
            raise GangstartError(
                f"report: {path} has {info.st_size >> 20} MiB, more than any start "
                "report: is it the right file?"
            )
        return file.read(most)


def refuse_empty(given: Mapping[str, str | None]) -> None:
    """Refuse options without a value: something else would be shown in their place."""
    for option, value in given.items():
        if value == "":
            raise GangstartError(
                f"report: {option}: an empty name; is a variable not set?", exit_code=2
            )


def add_options(parser: ArgumentParser) -> None:
    """Add the options that say where to look: the arguments of `places`."""
    add = parser.add_argument
    add(
        "--archive",
        metavar="DIR",
        help="in place of plugstack.conf's archive and of your own copies",
    )
    add("--spool", metavar="DIR", help="in place of /run/gangstart")
    add("--cluster", metavar="NAME", help="only start reports of this cluster")


def places(
    archive: str | None, spool: str | None, cluster: str | None = None
) -> Places:
    """Where to look: in the spool and below the archive.

    An archive that is named stands for that of this machine's plugstack.conf and for
    the user's own copies.

    Raises:
        GangstartError: the archive is no folder, or a name is empty.

    """
    given = {"--archive": archive, "--spool": spool, "--cluster": cluster}
    refuse_empty(given)
    site = plugstack.arguments()
    kept = archive or site.get("archive", "none")
    if archive and not Path(archive).is_dir():
        raise GangstartError(f"report: --archive {archive} is no folder", exit_code=2)
    env = job.environ()
    state, home = env.get("XDG_STATE_HOME", ""), env.get("HOME", "")
    below_home = f"{home}/.local/state" if home.startswith("/") else ""
    chosen = state if state.startswith("/") else below_home
    return Places(
        archive=None if kept == "none" else Path(kept),
        spool=Path(spool or site.get("spool", str(SPOOL))),
        states=[Path(chosen) / "gangstart"] if chosen and not archive else [],
        denied=[],
        cluster=cluster or "",
    )
