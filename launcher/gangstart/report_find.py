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

from gangstart import job
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SPOOL = Path("/run/gangstart")
SLURM_DIRS = (Path("/etc/slurm"), Path("/run/slurm/conf"))
PLUGIN = "spank_gangstart.so"
INCLUDE_DEPTH = 8
RIVALS_NAMED = 5

WANTED = re.compile(r"(\d{1,10})(?:\.(\d{1,10}))?")
NAME = re.compile(r"(\d{1,10})\.(\d{1,10})")
#: The key cannot occur inside a string, whose quotes are escaped.
DECIDED = re.compile(rb'"decided_at":(\d{1,12}(?:\.\d{1,9})?)')
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


class Places(NamedTuple):
    """Where to look."""

    archive: Path | None
    spool: Path
    states: list[Path]
    denied: list[str]

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
    """The report that is meant, and a remark if the choice was not obvious."""
    found = list(candidates(wanted, places))
    if not found:
        raise GangstartError(
            f"report: there is no start report of {wanted}: looked at {places}; name "
            "the file with --file, or the archive with --archive DIR"
        )
    if wanted.job is None:
        wanted = Wanted(max(found, key=lambda one: one.modified).job, None)
    same_job = [one for one in found if one.job == wanted.job]
    if wanted.step is None:
        wanted = Wanted(wanted.job, max(same_job, key=decided_at).step)
    return choose([one for one in same_job if one.step == wanted.step])


def choose(same: list[Found]) -> tuple[Path, str]:
    """One of several reports of one step: first place first, there the newest."""
    first = min(one.place for one in same)
    rivals = [one for one in same if one.place == first]
    chosen = max(rivals, key=decided_at)
    others = [one.path for one in rivals if one is not chosen]
    if not others:
        return chosen.path, ""
    named = ", ".join(str(path) for path in others[:RIVALS_NAMED])
    unnamed = len(others) - RIVALS_NAMED
    more = f" and {unnamed} more" if unnamed > 0 else ""
    return chosen.path, (
        f"{chosen.job}.{chosen.step} was also run elsewhere; this is the newest. "
        f"Others: {named}{more}"
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
            if not match or (wanted.job or int(match[1])) != int(match[1]):
                continue
            modified = modified_at(path)
            if modified is not None:
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


def decided_at(found: Found) -> tuple[float, float]:
    """When the step was decided, as the report says, else as the file system says."""
    try:
        with found.path.open("rb") as file:
            match = DECIDED.search(file.read(HEAD_BYTES))
    except OSError:
        match = None
    return (float(match[1]) if match else found.modified, found.modified)


def read(path: Path) -> bytes:
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
        if info.st_size > FILE_BYTES:
            raise GangstartError(
                f"report: {path} has {info.st_size >> 20} MiB, more than any start "
                "report: is it the right file?"
            )
        return file.read(FILE_BYTES)


def places(archive: str | None, spool: str | None) -> Places:
    """Where to look: options first, then this machine's plugstack.conf."""
    site = plugin_arguments()
    kept = archive or site.get("archive", "none")
    env = job.environ()
    state, home = env.get("XDG_STATE_HOME", ""), env.get("HOME", "")
    below_home = f"{home}/.local/state" if home.startswith("/") else ""
    chosen = state if state.startswith("/") else below_home
    return Places(
        archive=None if kept == "none" else Path(kept),
        spool=Path(spool or site.get("spool", str(SPOOL))),
        states=[Path(chosen) / "gangstart"] if chosen else [],
        denied=[],
    )


def plugin_arguments() -> dict[str, str]:
    """Arguments of our line in plugstack.conf; empty if it cannot be found here."""
    conf = job.environ().get("SLURM_CONF", "")
    folders = (Path(conf).parent,) if conf.startswith("/") else SLURM_DIRS
    for folder in folders:
        for words in plugstack_lines(folder / "plugstack.conf", INCLUDE_DEPTH):
            if len(words) > 1 and Path(words[1]).name == PLUGIN:
                pairs = (word.partition("=") for word in words[2:])
                return {key: value for key, _, value in pairs}
    return {}


def plugstack_lines(path: Path, depth: int) -> Iterator[list[str]]:
    """Lines of plugstack.conf as words, those of included files in their place."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) > 1 and words[0] == "include":
            pattern = str((path.parent / words[1]).absolute()).lstrip("/")
            for included in (
                sorted(Path("/").glob(pattern)) if pattern and depth else ()
            ):
                yield from plugstack_lines(included, depth - 1)
        elif words:
            yield words
