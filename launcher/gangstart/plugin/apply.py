"""Carries changes of files out, each at once, and keeps a record of them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gangstart.errors import GangstartError
from gangstart.plugin.place import MANIFEST
from gangstart.plugin.plan import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gangstart.plugin.place import Place
    from gangstart.plugin.plan import Change

VERSION = 1
LOCK_S = 60.0
LOCK_POLL_S = 0.1


@dataclass
class Record:
    """What was installed on this machine; kept in the manifest."""

    files: dict[Path, str] = field(default_factory=dict)  # path -> SHA-256
    folders: list[Path] = field(default_factory=list)  # that were made
    includes: dict[Path, str] = field(default_factory=dict)  # file -> line added to it

    def to_json(self) -> str:
        """Return the manifest's text."""
        told = {
            "version": VERSION,
            "files": {str(path): sha for path, sha in sorted(self.files.items())},
            "folders": [str(path) for path in self.folders],
            "includes": {str(path): line for path, line in self.includes.items()},
        }
        return json.dumps(told, indent=1) + "\n"


def load(place: Place) -> Record:
    """Read the manifest; an empty record if there is none."""
    path = place.manifest
    try:
        told: dict[str, Any] = json.loads(path.read_text())
        return Record(
            files={absolute(name): str(sha) for name, sha in told["files"].items()},
            folders=[absolute(name) for name in told["folders"]],
            includes={absolute(n): str(line) for n, line in told["includes"].items()},
        )
    except FileNotFoundError:
        return Record()
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise GangstartError(
            f"plugin: {path} is no record of an installation: remove it, then what "
            "was installed has to be removed by hand"
        ) from error


def absolute(name: str) -> Path:
    """Read a path of the record; ValueError if this command cannot have written it."""
    if not name.startswith("/") or "/../" in f"{name}/" or "\0" in name:
        raise ValueError(name)
    return Path(name)


def save(place: Place, record: Record) -> None:
    """Write the manifest, or remove it if nothing is installed any more."""
    if record.files or record.includes:
        make_folders(place, place.manifest.parent, record)
        write(place.manifest, record.to_json().encode(), 0o644)
        return
    remove(place.manifest)
    for folder in (MANIFEST.parent, *reversed(record.folders)):
        with contextlib.suppress(OSError):  # somebody else's files are in it
            place.real(folder).rmdir()


def carry_out(place: Place, changes: Sequence[Change], record: Record) -> None:
    """Do the changes; each is on record before it is begun."""
    for change in changes:
        path = place.real(change.path)
        if change.new is None:
            remove(path)
            record.files.pop(change.path, None)
            save(place, record)
            continue
        if is_ours(place, change, record):
            record.files[change.path] = digest(change.new)
        make_folders(place, path.parent, record)
        save(place, record)
        if change.needed:
            write(path, change.new, change.mode)


def is_ours(place: Place, change: Change, record: Record) -> bool:
    """Whether a file is this command's as a whole, to be removed by uninstall."""
    taken_over = change.mode & 0o111 and change.needed
    new = change.old is None or change.path in record.files or taken_over
    return bool(new) and change.path != place.stack


def make_folders(place: Place, folder: Path, record: Record) -> None:
    """Make a folder and those above it; remember the new ones."""
    missing = [p for p in (folder, *folder.parents) if not p.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o755)
        record.folders.append(Path("/") / path.relative_to(place.root))


@contextlib.contextmanager
def alone(place: Place) -> Iterator[None]:
    """Wait until no other of these commands is at work on the machine.

    Raises GangstartError after LOCK_S seconds.
    """
    folder = os.open(place.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        until = time.monotonic() + LOCK_S
        while not locked(folder):
            if time.monotonic() > until:
                raise GangstartError(
                    f"plugin: another process has had {place.root} locked for "
                    f"{LOCK_S:.0f} s, maybe a second gangstart plugin: lslocks names it"
                )
            time.sleep(LOCK_POLL_S)
        yield
    finally:
        os.close(folder)


def locked(folder: int) -> bool:
    """Lock an open folder for this process, if nobody else has."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove(path: Path) -> None:
    """Remove a file, and what a command that was killed left of it."""
    path.unlink(missing_ok=True)
    sweep(path)


def sweep(path: Path) -> None:
    """Remove half-written files beside one."""
    for stale in path.parent.glob(f".{escape(path.name)}.{'[0-9a-f]' * 8}"):
        stale.unlink(missing_ok=True)


def write(path: Path, content: bytes, mode: int) -> None:
    """Replace a file at once: whoever has it open or mapped keeps the old one.

    Raises GangstartError, which names the file, where it cannot be written.
    """
    target = path.resolve()
    try:
        sweep(target)
        rewrite(target, content, mode)
    except OSError as error:
        raise GangstartError(
            f"plugin: cannot write {target}: {error.strerror}; what was done so far is "
            "on record: run it again when that is mended, or gangstart plugin uninstall"
        ) from None


def rewrite(target: Path, content: bytes, mode: int) -> None:
    """Write a new file and rename it over the old one; nothing is left on failure."""
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), keep_mode(target, mode))
            os.fsync(file.fileno())
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def keep_mode(path: Path, mode: int) -> int:
    """Return the mode of a text that is there already, else the given one."""
    executable = mode & 0o111
    try:
        return mode if executable else path.stat().st_mode & 0o777
    except OSError:
        return mode
