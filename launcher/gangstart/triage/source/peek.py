"""Find and open a job's files as the job's user, in a process that may hang.

Paths of a job record are the user's. Root that looks at them must not be led by a link
to what only root may read, so a helper process takes on the user's identity for good
and asks the kernel; what it opens comes back as a descriptor. And a path on a file
system that is gone hangs whoever touches it: then the helper is killed, not triage.

The helper speaks one JSON line for each request over a pair of sockets.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gangstart import job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gangstart.triage.source.pattern import Wild

MODULE = "gangstart.triage.source.peek"
DEADLINE_S = 10.0
MESSAGE_BYTES = 1 << 22
BLOCK = 1 << 16
FOUND_MOST = 4096  # files of one pattern
ENTRIES_MOST = 100_000  # names of one folder that are looked at
OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
REAP_S = 1.0


@dataclass(frozen=True)
class FoundFile:
    """A file that exists, and whose it is by its name."""

    path: str
    rank: int | None = None
    node: str = ""  # its name, or "" where the pattern does not tell
    size: int = 0
    modified: float = 0.0


@dataclass(frozen=True)
class Refusal:
    """Why files of a job are not looked at."""

    why: str


class PeekError(Exception):
    """The helper did not answer, or the system refused; says which."""


def refusal(job_uid: int | None, user: str, own: int) -> Refusal | None:
    """Whether this process may look at files that a record of the job names. Pure."""
    if job_uid is None:
        return Refusal(
            f"it is not known whose job it is ({user or 'no user'} in record)"
        )
    if own not in (0, job_uid):
        return Refusal(
            f"the job is of {user or job_uid}, and you are user {own}: only its user "
            "and root see its logs; name a file that you may read with --log"
        )
    return None


class Peeker:
    """Looks at files as one user. Close it, or use it in ``with``."""

    def __init__(self, uid: int, deadline_s: float = DEADLINE_S) -> None:
        """Start the helper. Raises PeekError if the user is not known here."""
        self.deadline_s = deadline_s
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            try:
                self._child = helper(theirs.fileno(), uid)
            except PeekError:
                ours.close()
                raise
        self._socket = ours
        try:
            self._ask({"do": "hello"})
        except PeekError:
            self.close()
            raise

    def __enter__(self) -> Peeker:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the helper."""
        self.close()

    def close(self) -> None:
        """End the helper; one that hangs in the kernel is left."""
        self._socket.close()
        self._child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(REAP_S)

    def find(self, wild: Wild) -> list[FoundFile]:
        """Plain files that a path stands for, sorted by name; PeekError if it hangs."""
        parts = [p if isinstance(p, str) else {"re": p.pattern} for p in wild.parts]
        told, _ = self._ask({"do": "find", "parts": parts})
        return [FoundFile(**one) for one in told["found"]]

    def open(self, path: str, *, link: bool = True) -> int:
        """Open a plain file to read; the descriptor is the caller's to close.

        With `link` false a path whose last part is a symbolic link is refused.
        """
        _, fd = self._ask({"do": "open", "path": path, "link": link})
        if fd is None:
            raise PeekError(f"{path}: no descriptor came")
        return fd

    def _ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
        """One request and its answer."""
        end = time.monotonic() + self.deadline_s
        try:
            self._socket.settimeout(self.deadline_s)
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            raw, fd = receive(self._socket, end)
        except OSError as error:
            self._child.kill()
            what = request.get("path", request["do"])
            late = isinstance(error, TimeoutError)
            why = f"no answer within {self.deadline_s:g} s" if late else "it ended"
            raise PeekError(f"{what}: {why}") from error
        told: dict[str, Any] = json.loads(raw)
        if "error" in told:
            raise PeekError(str(told["error"]))
        return told, fd


def helper(link: int, uid: int) -> subprocess.Popen[bytes]:
    """Start the helper with its end of the pair."""
    try:
        return subprocess.Popen(
            job.module_argv(MODULE, str(link), str(uid)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(link,),
            env=job.child_env(None),
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise PeekError(f"no helper can be started: {error.strerror}") from error


def receive(link: socket.socket, end: float) -> tuple[bytes, int | None]:
    """One line, and the descriptor that came with it."""
    raw, passed = b"", None
    while not raw.endswith(b"\n"):
        left = end - time.monotonic()
        if left <= 0 or len(raw) > MESSAGE_BYTES:
            raise TimeoutError
        link.settimeout(left)
        part, fds, _, _ = socket.recv_fds(link, BLOCK, 1)
        if not part:
            raise ConnectionResetError
        raw += part
        passed = fds[0] if fds else passed
    return raw, passed


def main(argv: Sequence[str]) -> int:
    """Be the helper: argv is the socket's descriptor and the user's number."""
    with socket.socket(fileno=int(argv[0])) as link:
        try:
            become(int(argv[1]))
        except (OSError, KeyError) as error:
            reply(link, {"error": f"user {argv[1]}: {error}"})
            return 1
        lines = link.makefile("rb")
        for line in lines:
            answer(link, json.loads(line))
    return 0


def become(uid: int) -> None:
    """Take on a user's identity, all of it, for good. Only root has to."""
    if uid == os.getuid() == os.geteuid():
        return
    import pwd  # noqa: PLC0415  not on every system

    entry = pwd.getpwuid(uid)
    os.setgroups(os.getgrouplist(entry.pw_name, entry.pw_gid))
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(uid, uid, uid)
    if uid != 0 and 0 in (os.getuid(), os.geteuid()):
        raise PermissionError("root's identity did not go")


def answer(link: socket.socket, request: dict[str, Any]) -> None:
    """Do one request."""
    try:
        if request["do"] == "find":
            parts = [
                p if isinstance(p, str) else re.compile(p["re"])
                for p in request["parts"]
            ]
            reply(link, {"found": [describe(*one) for one in walk("/", parts, {})]})
        elif request["do"] == "open":
            hand_over(link, request["path"], follow=request["link"])
        else:
            reply(link, {})
    except OSError as error:
        reply(link, {"error": f"{request.get('path', '')}: {error.strerror}"})


def hand_over(link: socket.socket, path: str, *, follow: bool) -> None:
    """Open a plain file and send its descriptor."""
    if not follow and Path(path).is_symlink():
        reply(link, {"error": f"{path}: it is a symbolic link"})
        return
    fd = os.open(path, OPEN if follow else OPEN | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            reply(link, {"error": f"{path}: it is not a plain file"})
            return
        socket.send_fds(link, [b"{}\n"], [fd])
    finally:
        os.close(fd)


def reply(link: socket.socket, told: dict[str, Any]) -> None:
    """Send one line."""
    link.sendall(json.dumps(told).encode() + b"\n")


def walk(
    base: str, parts: Sequence[str | re.Pattern[str]], groups: dict[str, str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Paths of plain files, with what their names tell; at most FOUND_MOST."""
    found = 0
    for path, told in descend(base, parts, groups):
        if found >= FOUND_MOST:
            return
        if plain(path):
            found += 1
            yield path, told


def descend(
    base: str, parts: Sequence[str | re.Pattern[str]], groups: dict[str, str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Paths that fit, whether or not something is there at their end."""
    if not parts:
        yield base, groups
        return
    first, rest = parts[0], parts[1:]
    if isinstance(first, str):
        yield from descend(f"{base.rstrip('/')}/{first}", rest, groups)
        return
    for name in names_in(base):
        match = first.fullmatch(name)
        if not match:
            continue
        told = groups | {k: v for k, v in match.groupdict().items() if v}
        yield from descend(f"{base.rstrip('/')}/{name}", rest, told)


def names_in(folder: str) -> list[str]:
    """Names in a folder, sorted; none if it cannot be read."""
    names: list[str] = []
    try:
        with os.scandir(folder) as listed:
            for entry in listed:
                names.append(entry.name)
                if len(names) >= ENTRIES_MOST:
                    break
    except OSError:
        return []
    return sorted(names, key=lambda name: (len(name), name))


def plain(path: str) -> bool:
    """Whether a plain file is there, a link's end counted."""
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except OSError:
        return False


def describe(path: str, groups: dict[str, str]) -> dict[str, Any]:
    """What a `FoundFile` says."""
    info = Path(path).stat()
    rank = groups.get("rank")
    return {
        "path": path,
        "rank": None if rank is None else int(rank),
        "node": groups.get("node", ""),
        "size": info.st_size,
        "modified": info.st_mtime,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
