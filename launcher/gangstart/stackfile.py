"""plugstack.conf in plain strings: every rank of ``gangstart run`` reads it.

plugstack.py is the same with paths, for those who look closer.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PLUGIN = "spank_gangstart.so"
NAME = "plugstack.conf"
CONF = "slurm.conf"
#: Where a Slurm keeps its configuration: by hand, and as a client of a configless one.
FOLDERS = ("/etc/slurm", "/run/slurm/conf")
INCLUDE_DEPTH = 8
INCLUDE = "include"
ELSEWHERE = r"(?im)^\s*PlugStackConfig\s*=\s*(/[^\s#]+)"


def lines(
    path: str, depth: int = INCLUDE_DEPTH, *, root: str = "/"
) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Every plugin's line in Slurm's order: file, number, words.

    A file that cannot be read has none; `root` stands for / in include lines.
    """
    for number, line in enumerate(text_of(path).splitlines(), 1):
        words = tuple(line.partition("#")[0].split())
        if len(words) > 1 and words[0] == INCLUDE:
            for included in included_by(path, words[1], root=root) if depth else ():
                yield from lines(included, depth - 1, root=root)
        elif words:
            yield path, number, words


def included_by(path: str, pattern: str, *, root: str = "/") -> list[str]:
    """Files that an include line of a file stands for, in order, as glob(3) has it."""
    from glob import escape, glob  # noqa: PLC0415 - where nothing is included

    folder = os.path.dirname(os.path.abspath(path))
    if root != "/":
        from gangstart.plugin import image  # noqa: PLC0415 - only for images

        return image.matches(root, folder, pattern)
    base = "" if pattern.startswith("/") else folder + "/"
    return sorted(glob(escape(base) + pattern))


def candidates(env: Mapping[str, str]) -> list[str]:
    """Where plugstack.conf would be on this machine, without asking Slurm.

    Beside slurm.conf, unless that says where.
    """
    conf = env.get("SLURM_CONF", "")
    absolute = conf.startswith("/")
    files = [conf] if absolute else [f"{one}/{CONF}" for one in FOLDERS]
    return [
        elsewhere(text_of(one)) or f"{os.path.dirname(one)}/{NAME}" for one in files
    ]


def elsewhere(conf: str) -> str:
    """The path that slurm.conf's own text gives plugstack.conf; "" = it gives none."""
    if not conf:
        return ""
    import re  # noqa: PLC0415 - where there is no slurm.conf

    found = re.search(ELSEWHERE, conf)
    return found[1] if found else ""


def words(env: Mapping[str, str]) -> list[str]:
    """Arguments of our line in plugstack.conf; empty if it cannot be found here."""
    for path in candidates(env):
        for _, _, line in lines(path):
            if len(line) > 1 and os.path.basename(line[1]) == PLUGIN:
                return list(line[2:])
    return []


def text_of(path: str) -> str:
    """A file's text; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
