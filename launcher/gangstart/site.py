"""What the site says for all: our line in plugstack.conf, and which Slurm it is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart import job

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SLURM_DIRS = (Path("/etc/slurm"), Path("/run/slurm/conf"))
PLUGIN = "spank_gangstart.so"
INCLUDE_DEPTH = 8
VERSION_S = 5.0  # it asks nobody; only a sick file system makes it slow
ELSEWHERE = re.compile(r"^\s*PlugStackConfig\s*=\s*(/[^\s#]+)", re.IGNORECASE | re.M)


def plugin_words(env: Mapping[str, str]) -> list[str]:
    """Arguments of our line in plugstack.conf; empty if there is none here."""
    for path in plugstack_files(env):
        for words in plugstack_lines(path, INCLUDE_DEPTH):
            if len(words) > 1 and Path(words[1]).name == PLUGIN:
                return words[2:]
    return []


def plugin_arguments() -> dict[str, str]:
    """The same as key and value; the last one counts."""
    pairs = (word.partition("=") for word in plugin_words(job.environ()))
    return {key: value for key, _, value in pairs}


def plugstack_files(env: Mapping[str, str]) -> Iterator[Path]:
    """Where plugstack.conf may be: beside slurm.conf, unless that says where."""
    conf = env.get("SLURM_CONF", "")
    files = [Path(conf)] if conf.startswith("/") else []
    for slurm_conf in files or [folder / "slurm.conf" for folder in SLURM_DIRS]:
        elsewhere = ELSEWHERE.search(text_of(slurm_conf))
        if elsewhere:
            yield Path(elsewhere[1])
        else:
            yield slurm_conf.parent / "plugstack.conf"


def text_of(path: Path) -> str:
    """A file's text; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def plugstack_lines(path: Path, depth: int) -> Iterator[list[str]]:
    """Lines of plugstack.conf as words, those of included files in their place."""
    for line in text_of(path).splitlines():
        words = line.partition("#")[0].split()
        if len(words) > 1 and words[0] == "include":
            pattern = str((path.parent / words[1]).absolute()).lstrip("/")
            for included in (
                sorted(Path("/").glob(pattern)) if pattern and depth else ()
            ):
                yield from plugstack_lines(included, depth - 1)
        elif words:
            yield words


def slurm_version() -> str:
    """The release of this machine's Slurm, such as 22.05.8; "" = it does not say."""
    try:
        done = subprocess.run(
            ["scontrol", "--version"],  # noqa: S607 - the user's own PATH
            capture_output=True,
            text=True,
            timeout=VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = done.stdout.split()
    return words[-1] if done.returncode == 0 and words else ""
