"""The files of each job: start reports and events of node checks, newest job first.

The same places as ``gangstart report`` (``report_find``), and only what root wrote in
them, beside the user's own copies. One job is in memory at a time.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from gangstart import report, report_find
from gangstart.check.record import FILE, NODE_FOLDER, read_events
from gangstart.check.result import clean
from gangstart.errors import GangstartError
from gangstart.history.start import Start, believed, merged, start_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from gangstart.report_find import Places

EXAMPLES = 5
ASKED = 32  # reports that say which cluster this is
STEPS_MOST = 256  # of one job: it has one vote
#: The epilog copies no more of a file to the archive: spool.h, GS_PUBLISH_FILE_MAX.
REPORT_BYTES = 1 << 26
#: A file is written after what it tells; clocks and copying may be off by this much.
SLACK_S = 86400.0


class Entry(NamedTuple):
    """Something in one of the places that is about a job."""

    kind: str  # a key of FILES
    path: Path


@dataclass
class Trouble:
    """What could not be read or understood."""

    broken: int = 0
    unreadable: int = 0
    examples: list[str] = field(default_factory=list)

    def tell(self, text: str, *, denied: bool) -> None:
        """Count it; some are told in words."""
        self.unreadable += denied
        self.broken += not denied
        if len(self.examples) < EXAMPLES:
            self.examples.append(clean(text, 300))


class Check(NamedTuple):
    """One check of a node."""

    node: str
    told: Mapping[str, Any]


@dataclass
class JobFiles:
    """What was read of one job."""

    starts: list[Start] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    copies: int = 0  # of starts that were known already
    left_out: int = 0  # steps beyond STEPS_MOST


@dataclass
class Source:
    """Everything in some places."""

    places: Places
    own_node: str = ""  # whose checks are in the spool, where an event does not say it
    since: float | None = None
    trouble: Trouble = field(default_factory=Trouble)

    def index(self) -> dict[int, list[Entry]]:
        """Entries of each job, the newest job first."""
        found: dict[int, list[Entry]] = {}
        for kind, path in self.entries():
            name = path.name.removesuffix(".json") if kind == "copy" else path.name
            step, node = report_find.NAME.fullmatch(name), NODE_FOLDER.fullmatch(name)
            if step:
                found.setdefault(int(step[1]), []).append(Entry(kind, path))
            elif node and kind != "copy":
                found.setdefault(int(node[1]), []).append(Entry(f"{kind} node", path))
        return dict(sorted(found.items(), reverse=True))

    def entries(self) -> Iterator[tuple[str, Path]]:
        """Everything that lies in the places."""
        places = self.places
        if places.archive:
            for path in places.entries(places.archive):
                yield "archive", path
        for path in places.entries(places.spool):
            yield "spool", path
        for state in places.states:
            for cluster in places.entries(state):
                for path in places.entries(cluster):
                    yield "copy", path

    def read(self, entries: list[Entry]) -> JobFiles:
        """Read what there is of one job."""
        made = JobFiles()
        known: dict[tuple[str, str, int, float], list[Start]] = {}
        steps = [entry for entry in entries if not entry.kind.endswith("node")]
        made.left_out = max(len(steps) - STEPS_MOST, 0)
        for kind, path in entries:
            if kind.endswith("node"):
                made.checks += self.checks(kind, path)
        for kind, path in steps[:STEPS_MOST]:
            proven = kept_by(path) if kind == "archive" else None
            for file in self.reports(kind, path):
                start = self.start(file)
                if start is not None:
                    start = start if proven is None else believed(start, proven)
                    known.setdefault(start.key, []).append(start)
        for copies in known.values():
            whole = next((one for one in copies if one.whole), None)
            made.starts.append(whole or merged(copies))
            made.copies += len(copies) - 1 if whole else 0
        return made

    def reports(self, kind: str, path: Path) -> Iterator[Path]:
        """Files of a step: the complete report, or without one what its nodes kept."""
        if kind == "copy":
            yield from self.present(path)
        elif kind == "spool":
            yield from self.present(path / "sys" / "start.json")
        else:
            complete = list(self.present(path / "start.json"))
            yield from complete
            for node in () if complete else self.places.entries(path):
                yield from self.present(node / "sys" / "start.json")

    def present(self, path: Path) -> Iterator[Path]:
        """Yield the path if a plain file is there that is new enough."""
        try:
            info = path.stat()
        except PermissionError:
            self.places.denied.append(str(path.parent))  # it is the folder that is shut
            return
        except OSError:
            return
        old = self.since is not None and info.st_mtime < self.since - SLACK_S
        if stat.S_ISREG(info.st_mode) and not old:
            yield path

    def start(self, path: Path) -> Start | None:
        """Read one report, or remember why not."""
        try:
            return start_of(report.parse(report_find.read(path, REPORT_BYTES), path))
        except GangstartError as error:
            text = error.message.removeprefix("report: ")
            said = text if str(path) in text else f"{path}: {text}"
            denied = isinstance(error.__cause__, PermissionError)
            self.trouble.tell(said, denied=denied)
        return None

    def checks(self, kind: str, path: Path) -> Iterator[Check]:
        """Events of checks: in the archive below the node's name, here without."""
        folders = [path] if kind == "spool node" else self.places.entries(path)
        for folder in folders:
            for file in self.present(folder / "sys" / FILE):
                if not os.access(file, os.R_OK, effective_ids=True):
                    self.trouble.tell(f"{file}: Permission denied", denied=True)
                    continue
                for told in read_events(file):
                    if told.get("event") == "check":
                        yield Check(self.node_of(kind, folder, told), told)

    def node_of(self, kind: str, folder: Path, told: Mapping[str, Any]) -> str:
        """Return the node an event is of."""
        if kind == "archive node":
            return folder.name
        name = told.get("node")
        return name if isinstance(name, str) else self.own_node

    def cluster(self, index: Mapping[int, Sequence[Entry]]) -> str:
        """Return the cluster that most of the newest reports here are of.

        Reports say what some user's srun said, so none of them decides alone. The
        user's own copies count only where there is nothing else.
        """
        quiet = Source(self.places, since=self.since)  # what is shut is told later
        for kinds in (("archive", "spool"), ("copy",)):
            newest = (
                path
                for entries in index.values()
                for kind, folder in entries
                if kind in kinds
                for path in quiet.reports(kind, folder)
            )
            named = Counter(map(report_find.cluster_of, islice(newest, ASKED)))
            del named[""]
            if named:
                return named.most_common(1)[0][0]
        return ""

    def denied(self) -> int:
        """Files and folders that must not be read; also tells some of them."""
        told = [
            f"{one}: Permission denied" for one in dict.fromkeys(self.places.denied)
        ]
        self.trouble.examples += told[: EXAMPLES - len(self.trouble.examples)]
        return self.trouble.unreadable + len(told)


def kept_by(step: Path) -> set[str] | None:
    """Nodes that kept something of an archived step: root makes a folder for each.

    None if that must not be read.
    """
    try:
        return set(os.listdir(step))  # noqa: PTH208 - no path for each is needed
    except OSError:
        return None
