"""Verdicts on what else a start needs of a node. Pure: no I/O."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gangstart.doctor.scene import finding, judged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gangstart.check.result import Finding
    from gangstart.doctor.facts import Connection, Facts
    from gangstart.doctor.scene import Scene

    Judgement = tuple[str, str]

#: Half a second: reports compare times of nodes, whose skew is of that size. munge
#: refuses what is 300 s off (munged(8), --max-ttl and its default of 300 s).
CLOCK_WARN_US = 500_000
CLOCK_FAIL_US = 300_000_000
SPOOL_FREE_BYTES = 16 << 20
OK = "ok"


def auth(scene: Scene) -> Iterator[Finding]:
    """Whether munged answers, or whatever there is in its place works."""
    site = scene.site
    kind = site.setting("AuthType") or "auth/munge"
    if not site.munge_socket:
        verdict = "ok" if site.config else "unknown"
        yield finding("auth", verdict, f"{kind}; the controller was asked with it")
        return
    yield from judged("auth", scene.everywhere, munge)


def munge(told: Facts) -> Judgement:
    """Judge one node's munged."""
    state = told.folder("munge")
    path = told.one("munge").partition(" ")[0]
    if not state:
        return "unknown", "munged was not asked"
    if state.startswith(OK):
        return "ok", f"munged listens at {path}"
    if "Permission" in state:
        return "unknown", f"{path}: {state.removeprefix('failed: ')}"
    return "fail", f"munged at {path}: {state.removeprefix('failed: ')}"


def ports(scene: Scene) -> Iterator[Finding]:
    """Whether each node reached this machine."""
    low, high = scene.site.srun_ports
    named = f"SrunPortRange {low}-{high}" if low else "any port"
    if "ports" in scene.site.arguments and low:
        named = f"ports={low}-{high}"
    if scene.site.arguments.get("rendezvous") == "node":
        yield finding("ports", "ok", "rendezvous=node: nothing comes to this machine")
        return
    if scene.greeter_problem:
        why = f"{named}: nothing can listen here: {scene.greeter_problem}"
        yield finding("ports", "fail", why)
        return

    def judge(told: Facts) -> Judgement:
        tried = told.connections
        if not tried:
            return "unknown", "no connection was tried"
        one = tried[-1]
        if one.problem:
            return "warn", f"cannot reach {one.target} ({named}): {one.problem}"
        if scene.nonce not in one.greeting:
            return "warn", f"{one.target} is answered by somebody else"
        return "ok", f"reach this machine ({named})"

    yield from judged("ports", scene.asked, judge)


def iface(scene: Scene) -> Iterator[Finding]:
    """Whether each node has an address to offer."""
    wanted = scene.site.arguments.get("master-iface", "auto")

    def judge(told: Facts) -> Judgement:
        chosen = told.one("chosen")
        if not chosen:
            return "unknown", "its addresses are not known"
        if chosen.startswith(("none", "unknown")):
            return "fail", f"master-iface={wanted}: {chosen.partition(': ')[2]}"
        return "ok", f"{chosen.partition(' ')[0]} (master-iface={wanted})"

    yield from judged("iface", scene.compute, judge)


def mtu(scene: Scene) -> Iterator[Finding]:
    """Whether the interfaces that would be used agree."""
    sizes = {t.node: t.chosen.mtu for t in scene.compute if t.chosen}
    known = Counter(size for size in sizes.values() if size is not None)
    if not known:
        return
    usual = max(known, key=lambda size: (known[size], size))

    def judge(told: Facts) -> Judgement:
        size, name = sizes[told.node], told.one("chosen").partition(" ")[0]
        if size is None:
            return "unknown", f"the MTU of {name} is not known"
        if size != usual:
            return "warn", f"MTU {size} of {name}, most have {usual}"
        return "ok", f"MTU {usual}"

    yield from judged("mtu", (t for t in scene.compute if t.node in sizes), judge)


def clock(scene: Scene) -> Iterator[Finding]:
    """Whether the nodes' clocks are those of this machine."""
    yield from judged("clock", scene.asked, clock_of)


def clock_of(told: Facts) -> Judgement:
    """Judge one clock by the answer that it got from here."""
    free = told.one("clock_synced") == "no"
    loose = ", but nothing keeps it so (the kernel says: not synchronised)"
    offset = next((o for o in map(offset_us, told.connections) if o is not None), None)
    if offset is None:
        return "unknown", "no answer from here to compare with"
    if abs(offset) < CLOCK_WARN_US:
        return "ok", f"within {CLOCK_WARN_US / 1e6:g} s of this machine's" + (
            loose if free else ""
        )
    verdict = "fail" if abs(offset) >= CLOCK_FAIL_US else "warn"
    way = "ahead" if offset > 0 else "behind"
    return verdict, f"{abs(offset) / 1e6:.1f} s {way} of this machine"


def offset_us(one: Connection) -> int | None:
    """How far a node's clock is ahead; the way there took at most as long as both."""
    if one.problem or one.sent_us is None:
        return None
    return one.node_time_us - one.sent_us - one.took_us // 2


def gpu(scene: Scene) -> Iterator[Finding]:
    """Whether the driver answers."""

    def judge(told: Facts) -> Judgement:
        node = scene.known.get(told.node)
        return gpu_of(told, node.gpus if node else 0)

    yield from judged("gpu", scene.compute, judge)


def gpu_of(told: Facts, expected: int) -> Judgement:
    """Judge one node; `expected` GPUs are what Slurm gives out there."""
    amd = told.number("gpus_amd") or 0
    if told.hung:
        return "fail", "the GPU driver does not answer"
    if told.number("gpus_nvidia") or told.one("nvml"):
        return nvidia_of(told, expected)
    if amd:
        loaded = told.one("driver_amd") == "yes"
        said = f"{amd} AMD GPUs, amdgpu is {'' if loaded else 'not '}loaded"
        return ("ok" if loaded else "fail"), said
    if expected:
        return "fail", f"Slurm gives out {expected} GPUs, and none is on the bus"
    return "ok", "no GPUs"


def nvidia_of(told: Facts, expected: int) -> Judgement:
    """Judge a node with NVIDIA's GPUs or library."""
    bus, nvml = told.number("gpus_nvidia") or 0, told.one("nvml")
    if nvml.startswith("ok "):
        seen = int(nvml[3:]) if nvml[3:].isdigit() else 0
        few = f"NVML sees {seen} GPUs, Slurm gives out {expected}"
        driver = told.one("driver") or "?"
        return ("warn", few) if seen < expected else ("ok", f"driver {driver}")
    if told.one("driver_loaded") == "no":
        return "fail", f"{bus} NVIDIA GPUs, and no driver is loaded"
    return "fail", f"{bus} NVIDIA GPUs, and NVML says: {nvml or 'nothing'}"


def spool(scene: Scene) -> Iterator[Finding]:
    """Whether steps can leave their records."""
    yield from judged("spool", scene.compute, spool_of)


def spool_of(told: Facts) -> Judgement:
    """Judge one node's spool."""
    path, state = told.one("spool").partition(" ")[0], told.folder("spool")
    if not state:
        return "unknown", "the spool was not looked at"
    if not state.startswith(OK):
        return "fail", f"{path}: {state.removeprefix('failed: ')}"
    free = state.removeprefix("ok ").strip()
    if free.isdigit() and int(free) < SPOOL_FREE_BYTES:
        return "warn", f"{path}: only {int(free) >> 10} KiB are free"
    return "ok", path


def archive(scene: Scene) -> Iterator[Finding]:
    """Whether what ended steps leave can be kept."""
    if not scene.site.ours:
        yield finding("archive", "unknown", "plugstack.conf names no gangstart")
        return
    if not scene.site.path("archive"):
        yield finding("archive", "ok", "none is configured")
        return
    yield from judged("archive", scene.everywhere, archive_of)


def archive_of(told: Facts) -> Judgement:
    """Judge the archive as one node sees it."""
    path, state = told.one("archive").partition(" ")[0], told.folder("archive")
    if not state:
        return "unknown", "the archive was not looked at"
    if state == "hangs":
        return "fail", f"{path} does not answer"
    if not state.startswith(OK):
        why = state.removeprefix("failed: ")
        verdict = "unknown" if "Permission" in why else "fail"
        return verdict, f"{path}: {why}"
    return "ok", path


def memlock(scene: Scene) -> Iterator[Finding]:
    """Whether RDMA can register memory in what slurmd starts."""
    yield from judged("memlock", scene.compute, memlock_of)


def memlock_of(told: Facts) -> Judgement:
    """Judge one node."""
    if not told.number("rdma"):
        return "ok", "no RDMA devices"
    limit = told.one("slurmd_memlock")
    if not limit:
        return "unknown", "slurmd's limits cannot be seen there"
    if limit != "unlimited":
        return "warn", f"slurmd may lock {limit} bytes, and there are RDMA devices"
    return "ok", "unlimited"


JUDGES: tuple[Callable[[Scene], Iterator[Finding]], ...] = (
    auth,
    ports,
    iface,
    mtu,
    clock,
    gpu,
    spool,
    archive,
    memlock,
)
