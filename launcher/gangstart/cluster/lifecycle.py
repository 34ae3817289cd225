"""Up: a cluster comes whole, or not at all and with a reason."""

from __future__ import annotations

import json
import os
import pwd
import selectors
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gangstart import job
from gangstart.cluster import (
    config,
    daemons,
    keeper,
    newroot,
    removal,
    space,
    state,
)
from gangstart.cluster.state import State
from gangstart.errors import GangstartError
from gangstart.plugin import path as ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gangstart.cluster.config import Spec

PROBE = "gangstart-probe"
#: What a plugin is called where Slurm loads it from.
PLUGIN = "spank_gangstart.so"
NEIGHBOUR_LIMIT = Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3")
#: The keeper reports its own failure; this much later it is taken to be stuck.
KEEPER_SLACK_SECONDS = 10.0


def built_plugin(root: str = "") -> str | None:
    """Find the plugin of this package for the machine's Slurm, or for that in a root.

    None if the package was built without plugins; a Slurm that it has none for is
    refused with a sentence.
    """
    if not ours.lines():
        return None
    slurmd = daemons.find_tools(search_path(), root)["slurmd"]
    return str(ours.find(daemons.release(slurmd, root)))


def search_path() -> str:
    """Where programs are looked for: the caller's PATH, then the system's."""
    return os.pathsep.join([job.environ().get("PATH", ""), ours.SYSTEM_PATH])


def up(spec: Spec, progress: Callable[[str], None]) -> State:
    """Bring a cluster up, or leave nothing of it and say why."""
    if not sys.platform.startswith("linux"):
        raise GangstartError(
            f"cluster: needs Linux (network namespaces), and this is {sys.platform}"
        )
    spec = replace(check(spec), owner=owner(), search_path=search_path())
    spec = rooted(spec) if spec.root else spec
    tools = daemons.find_tools(spec.search_path, spec.root)
    spec = replace(spec, release=daemons.release(tools["slurmd"], spec.root))
    try:
        directory = state.claim(state.base(), spec.name, spec.directory)
    except FileExistsError:
        raise GangstartError(
            f"cluster {spec.name} exists already in {state.base() / spec.name}: see "
            f"gangstart cluster status --name {spec.name}, or take it down first"
        ) from None
    except PermissionError as error:
        raise GangstartError(
            f"cluster: cannot make {error.filename}: {error.strerror}: set "
            "XDG_STATE_HOME or --dir to a directory you can write to"
        ) from None
    spec = replace(spec, directory=str(directory.resolve()))
    finished = False
    try:
        with state.locked(directory):
            current = State(spec=prepare(spec), boot_id=state.boot_id())
            state.write(current)
            start_keeper(current.spec, progress)
            finished = True
    finally:
        if not finished:
            with removal.uninterrupted():
                removal.remove(spec.name, directory)
    return existing(spec.name)


def check(spec: Spec) -> Spec:
    """Return the spec as it will be built, or say what is wrong with it."""
    config.check_name(spec.name)
    config.check_range("-n", spec.nodes, config.NODES_MAX)
    config.check_range("--cpus", spec.cpus, config.CPUS_MAX)
    for argument in spec.plugin_args:
        config.check_plugin_arg(argument)
    for line in spec.slurm_lines:
        config.check_slurm_line(line)
    config.check_directory(os.path.realpath(spec.directory or state.base() / spec.name))
    if spec.directory:
        config.check_directory(spec.directory)
    if spec.plugin is not None and not Path(spec.plugin).is_file():
        raise config.refuse(
            f"--plugin {spec.plugin} is not a file: build the plugin, or --no-plugin"
        )
    limit = neighbour_limit()
    problem = config.neighbour_problem(spec.nodes, limit)
    if problem is not None and limit is not None:
        raise config.refuse(problem)
    return spec


def rooted(spec: Spec) -> Spec:
    """Return the spec with the root's real path and all that is shown in it."""
    if os.getuid() != 0:
        raise config.refuse("--root needs root: an ordinary user cannot mount in it")
    root = config.check_directory(os.path.realpath(spec.root), "--root")
    if not Path(root).is_dir():
        raise config.refuse(f"--root {spec.root} is not a folder: {daemons.ROOTS_HINT}")
    binds = tuple(os.path.realpath(path) for path in spec.binds)
    for path in binds:
        config.check_directory(path, "--bind")
        if not Path(path).exists():
            raise config.refuse(f"--bind {path} is not there: name what exists")
    home = job.environ().get("HOME", "")
    return replace(spec, root=root, binds=(*newroot.lent(home), *binds))


def neighbour_limit() -> int | None:
    """Read how many neighbours the kernel remembers; None where it does not say."""
    if NEIGHBOUR_LIMIT.exists():
        return int(NEIGHBOUR_LIMIT.read_text())
    return None


def owner() -> str:
    """Who the daemons will run as."""
    if os.getuid() == 0:
        return "root"
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise GangstartError(
            f"cluster: user id {os.getuid()} has no name on this machine, and Slurm "
            "needs one: add the user, or run as root"
        ) from None
    return str(os.getuid())


def prepare(spec: Spec) -> Spec:
    """Fill a fresh cluster directory; return the spec with the plugin's final place."""
    for name in ("etc", "log", "state", "munge", "archive", "plugin", "key"):
        path = Path(spec.path(name))
        path.mkdir()
        path.chmod(0o700 if name == "key" else state.PUBLIC)
    space.prepare(spec)
    key = Path(spec.path("key", "munge.key"))
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    if spec.plugin is not None:
        spec = replace(spec, plugin=install_plugin(spec, spec.plugin))
    spec = replace(spec, memory_mb=machine_memory_mb())
    for name, render in config.FILES.items():
        path = Path(spec.path("etc", name))
        path.write_text(render(spec))
        path.chmod(0o644)
    return spec


def install_plugin(spec: Spec, source: str) -> str:
    """Copy the plugin into the cluster, and the probe that lies beside it."""
    target = install(source, spec.path("plugin", PLUGIN))
    packaged = Path(source).parent == ours.FOLDER
    probe = (ours.FOLDER if packaged else Path(source)).with_name(PROBE)
    if probe.is_file():
        install(str(probe), spec.path("plugin", PROBE))
    return target


def install(source: str, place: str) -> str:
    """Copy a program by rename: whatever runs it has it mapped."""
    target = Path(place)
    fresh = target.with_name(f"{target.name}.new")
    shutil.copyfile(source, fresh)
    fresh.chmod(0o755)
    fresh.replace(target)
    return str(target)


def machine_memory_mb() -> int:
    """Return the machine's memory: every node may use all of it."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20


def start_keeper(spec: Spec, progress: Callable[[str], None]) -> None:
    """Start the keeper and follow its reports until the cluster is ready."""
    log = Path(spec.path("log", "keeper.err"))
    receive, send = os.pipe()
    with log.open("wb") as errors, os.fdopen(receive) as pipe:
        # It detaches itself at once: what is waited for here is only its first half.
        with os.fdopen(send, "wb") as reports_to:
            subprocess.run(
                job.module_argv(keeper.MODULE, spec.directory),
                env=job.child_env(daemons.environment(spec)),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=reports_to,
                stderr=errors,
                start_new_session=True,
                check=False,
                timeout=KEEPER_SLACK_SECONDS,
            )
        limit = keeper.deadline_seconds(spec.nodes) + KEEPER_SLACK_SECONDS
        for fields in reports(pipe.fileno(), limit):
            if "error" in fields:
                raise GangstartError(fields["error"])
            if "ready" in fields:
                return
            progress(fields["progress"])
    words = daemons.last_words(spec, "keeper")
    raise GangstartError(f"cluster {spec.name}: its keeper failed: {words}")


def reports(descriptor: int, limit_seconds: float) -> Iterator[dict[str, Any]]:
    """Read the keeper's reports until it ends, or time is up."""
    end = time.monotonic() + limit_seconds
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while selector.select(max(0.0, end - time.monotonic())):
            chunk = os.read(descriptor, 65536)
            if not chunk:
                return
            *rows, pending = (pending + chunk).split(b"\n")
            for row in rows:
                yield json.loads(row)


def existing(name: str) -> State:
    """Return the state of a cluster that exists, or a sentence."""
    config.check_name(name)
    directory = state.find(state.base(), name)
    return state.require(directory)
