"""Where the plugin goes on a machine: folders of Slurm's and ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart import plugstack, stackfile
from gangstart.doctor import site
from gangstart.errors import GangstartError
from gangstart.plugin import image
from gangstart.plugin import path as release

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gangstart.doctor.tools import Tools

#: Where plugin and probe go if Slurm does not say where its plugins are.
LIBDIR = Path("/usr/lib/gangstart")
MANIFEST = Path("/var/lib/gangstart/plugin.json")
CLIENT_CONF = Path("/run/slurm/conf")
#: Since 23.11 a configless controller hands out what plugstack.conf includes, too.
INCLUDES_SENT = "23.11"
CONFIGLESS = "enable_configless"
EXIT_USAGE = 2
EXAMPLES = {"--conf-dir": "/etc/slurm", "--libdir": "/usr/lib/gangstart"}
WORD = re.compile(r"[^\s#\"'\\\x00-\x1f]+")


@dataclass(frozen=True)
class Place:
    """The folders and files in question, below `root`."""

    root: Path
    stack: Path  # plugstack.conf
    libdir: Path
    plugin_dir: Path | None = (
        None  # Slurm's own; names without a path are looked up there
    )
    line: str = ""  # release line of the Slurm here, "" = not known
    configless: bool = False

    @property
    def parts(self) -> Path:
        """The folder whose files plugstack.conf includes."""
        return self.stack.with_name("plugstack.conf.d")

    @property
    def manifest(self) -> Path:
        """Where it is kept what was installed."""
        return self.real(MANIFEST)

    def real(self, path: Path) -> Path:
        """Return where a path of the machine is seen from here, never outside."""
        return image.below(self.root, path)

    @property
    def named(self) -> str:
        """The plugin as plugstack.conf calls it."""
        if self.libdir == self.plugin_dir:
            return stackfile.PLUGIN
        return str(self.libdir / stackfile.PLUGIN)

    @property
    def inline(self) -> bool:
        """Whether the line has to be in plugstack.conf itself to reach the nodes."""
        return self.configless and bool(self.line) and self.line < INCLUDES_SENT


@dataclass(frozen=True)
class Wanted:
    """What the user named."""

    root: str = "/"
    conf_dir: str = ""
    libdir: str = ""
    release: str = ""


def find(wanted: Wanted, tools: Tools, env: Mapping[str, str]) -> Place:
    """Ask Slurm where things are; what the user named is not asked for."""
    root = root_of(wanted.root)
    told = {} if root != Path("/") else ask(tools, env)
    conf = wanted.conf_dir and Path(wanted.conf_dir) / stackfile.NAME
    stack = Path(conf) if conf else stack_of(root, told)
    first = told.get("plugindir", "").partition(":")[0]
    plugin_dir = Path(first) if first.startswith("/") else debian_plugins(root)
    libdir = Path(wanted.libdir) if wanted.libdir else plugin_dir or LIBDIR
    for what, folder in (("--conf-dir", wanted.conf_dir), ("--libdir", wanted.libdir)):
        check_folder(what, folder)
    version = told.get("slurm_version", "") or told.get("here", "")
    given = str(release.read(wanted.release)) if wanted.release else ""
    return Place(
        root=root,
        stack=stack,
        libdir=libdir,
        plugin_dir=plugin_dir,
        line=given or site.line_of(version),
        configless=CONFIGLESS in told.get("slurmctldparameters", ""),
    )


def root_of(given: str) -> Path:
    """Return the machine's root; one that was left empty is not this folder."""
    root = Path(given).absolute()
    if given and root.is_dir():
        return root
    raise GangstartError(
        f"plugin: --root {given!r} is no folder: name the one that holds the image",
        exit_code=EXIT_USAGE,
    )


def check_folder(what: str, given: str) -> None:
    """Refuse a folder that plugstack.conf could not name: words end at blanks there."""
    if not given:
        return
    if not given.startswith("/") or "/../" in f"{given}/":
        text = f"is no absolute path without .. such as {EXAMPLES[what]}"
    elif not WORD.fullmatch(given):
        text = "cannot be written into plugstack.conf: no blanks, quotes or '#'"
    else:
        return
    raise GangstartError(f"plugin: {what} {given!r} {text}", exit_code=EXIT_USAGE)


def ask(tools: Tools, env: Mapping[str, str]) -> dict[str, str]:
    """Return Slurm's configuration, and the version of the commands here."""
    config = tools.run(["scontrol", "show", "config"], site.ASK_S, env)
    told = site.settings(config.out) if config.code == 0 else {}
    version = tools.run(["srun", "--version"], site.ASK_S, env)
    if version.code == 0:
        told["here"] = version.out.strip()
    return told


def stack_of(root: Path, told: Mapping[str, str]) -> Path:
    """Return plugstack.conf: Slurm's word, the usual places, or where it would be."""
    named = told.get("plugstackconfig", "")
    beside = told.get("slurm_conf", "")
    paths = [Path(named)] if named.startswith("/") else []
    paths += [Path(beside).with_name(stackfile.NAME)] if beside.startswith("/") else []
    if paths:
        return paths[0]
    found = plugstack.candidates() if root == Path("/") else list(usual())
    for path in found:
        folder = image.below(root, path.parent)
        if folder.is_dir() and path.parent != CLIENT_CONF:
            return path
    raise GangstartError(
        f"plugin: there is no Slurm configuration below {root} ({found[0].parent} is "
        "missing), and scontrol does not answer: name its folder with --conf-dir"
    )


def usual() -> tuple[Path, ...]:
    """Return plugstack.conf in the usual folders."""
    return tuple(Path(folder) / stackfile.NAME for folder in stackfile.FOLDERS)


def debian_plugins(root: Path) -> Path | None:
    """Return the folder of Debian's and Ubuntu's Slurm plugins, if it is there."""
    lib = Path("/usr/lib")
    for found in sorted(image.below(root, lib).glob("*-linux-*")):
        folder = lib / found.name / "slurm-wlm"
        if image.below(root, folder).is_dir():
            return folder
    return None
