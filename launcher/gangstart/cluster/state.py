"""Where clusters live on disk: the claim of a name, the lock, the state file."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart import job
from gangstart.cluster.config import Spec
from gangstart.errors import GangstartError
from gangstart.plugin.recipe import Line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT_BASE = Path("/var/lib/gangstart/cluster")
STATE_FILE = "state.json"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: `up` holds the lock while it works: `down` waits that long for it.
LOCK_SECONDS = 60.0
LOCK_POLL_SECONDS = 0.02
PUBLIC = 0o755
STARTING = "starting"
UP = "up"


@dataclass(frozen=True)
class State:
    """What the tool must know about a cluster to enter it or end it."""

    spec: Spec
    phase: str = STARTING
    boot_id: str = ""
    keeper: int = 0
    keeper_start: int = 0
    #: Node -> kind of namespace -> the keeper's descriptor that holds it open.
    spaces: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def default_base(uid: int, environ: Mapping[str, str]) -> Path:
    """Directory that holds a user's clusters, by name."""
    if uid == 0:
        return ROOT_BASE
    state_home = environ.get("XDG_STATE_HOME", "")
    if state_home.startswith("/"):
        return Path(state_home) / "gangstart" / "cluster"
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        raise GangstartError(
            "cluster: HOME is not set, so there is no place for a cluster: set HOME "
            "or XDG_STATE_HOME to a directory you can write to"
        )
    return Path(home) / ".local" / "state" / "gangstart" / "cluster"


def base() -> Path:
    """Directory of this user's clusters."""
    return default_base(os.getuid(), job.environ())


def boot_id() -> str:
    """Name of this boot of the machine: a restart ends every cluster."""
    return BOOT_ID.read_text().strip()


def names(base: Path) -> list[str]:
    """List the clusters that exist, up or not."""
    return sorted(entry.name for entry in base.iterdir()) if base.is_dir() else []


def claim(base: Path, name: str, directory: str) -> Path:
    """Take the name, atomically, and return the new, empty directory behind it.

    A directory of the user's own choice is linked from the base, so that a name is
    all the other commands need. Raises FileExistsError when the name is taken.
    """
    entry = base / name
    make_public(base)
    if not directory:
        entry.mkdir()
        entry.chmod(PUBLIC)
        return entry
    target = Path(directory)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise GangstartError(
            f"cluster {name}: --dir {target} exists and is not an empty directory: "
            "name a new one (it is removed with the cluster)",
            exit_code=2,
        )
    entry.symlink_to(target)
    try:
        make_public(target)
    except OSError:
        entry.unlink()
        raise
    return target


def make_public(directory: Path) -> None:
    """Create a directory that everybody may enter, whatever the umask is."""
    missing = []
    while not directory.exists():
        missing.append(directory)
        directory = directory.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        path.chmod(PUBLIC)


def release(base: Path, name: str) -> None:
    """Give the name back, and the base directories if nothing else is in them."""
    entry = base / name
    if entry.is_symlink():
        entry.unlink()
    for directory in (base, base.parent):
        with contextlib.suppress(OSError):  # other clusters still live there
            directory.rmdir()


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the cluster's lock; it is on the directory itself and leaves no file.

    Raises FileNotFoundError when the directory has gone meanwhile.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    end = time.monotonic() + LOCK_SECONDS
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise GangstartError(
                        f"cluster: another gangstart still works on {directory} after "
                        f"{LOCK_SECONDS:.0f} s: try again when it has ended"
                    ) from None
                time.sleep(LOCK_POLL_SECONDS)
        if directory.stat().st_ino != os.fstat(descriptor).st_ino:
            raise FileNotFoundError(directory)
        yield
    finally:
        os.close(descriptor)


def write(state: State) -> None:
    """Replace the state file in one step."""
    path = Path(state.spec.directory, STATE_FILE)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(state), indent=1) + "\n")
    fresh.chmod(0o644)
    fresh.replace(path)


def read(directory: Path) -> State | None:
    """Read the state file; None when an `up` did not get as far as writing one."""
    try:
        raw = json.loads((directory / STATE_FILE).read_text())
    except FileNotFoundError:
        return None
    fields = raw.pop("spec")
    for name in ("plugin_args", "slurm_lines", "slurmd_args", "binds"):
        fields[name] = tuple(fields[name])
    fields["release"] = Line(*fields["release"])
    return State(spec=Spec(**fields), **raw)


def require(directory: Path) -> State:
    """Read the state of a cluster that must be there."""
    current = read(directory)
    if current is None:
        raise GangstartError(
            f"cluster {directory.name} was left half-made in {directory}: gangstart "
            f"cluster down --name {directory.name}"
        )
    return current


def find(base: Path, name: str) -> Path:
    """Directory of an existing cluster, or a sentence that names those there are."""
    entry = base / name
    if entry.is_dir():
        return entry.resolve()
    others = names(base)
    known = f"there are {', '.join(others)}" if others else "there is none"
    raise GangstartError(
        f"cluster {name} does not exist ({known}): gangstart cluster up"
        + ("" if name == "default" else f" --name {name}")
    )
