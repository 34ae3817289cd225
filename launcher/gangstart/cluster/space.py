"""Namespaces of the cluster: one network, mount and UTS namespace per node.

No name in /run/netns and no mount on the machine: a namespace lives as long as the
keeper holds it open, or a process is in it, and the kernel cleans up behind it.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart.cluster import kernel, net, newroot
from gangstart.cluster.config import HEAD, HEAD_ADDRESS, PREFIX_LENGTH, SPOOL, address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gangstart.cluster.config import Spec
    from gangstart.cluster.state import State

#: In the order they are entered: the user namespace gives the right to the others,
#: and the mount namespace, which changes every path, comes last.
KINDS = (
    ("user", kernel.CLONE_NEWUSER),
    ("net", kernel.CLONE_NEWNET),
    ("uts", kernel.CLONE_NEWUTS),
    ("mnt", kernel.CLONE_NEWNS),
)
LOOPBACK_INDEX = 1
INTERFACE = "eth0"
STICKY = 0o1777

#: Directory in the cluster's node/NODE -> where that node sees it.
OWN = {"run": SPOOL, "slurmd": "/run/slurmd", "tmp": "/tmp"}  # noqa: S108  mount points
#: Path in the cluster's directory -> where every node sees it, if the machine has it.
SHARED = {"munge": "/run/munge", "etc/hosts": "/etc/hosts", "etc": "/etc/slurm"}


def prepare(spec: Spec) -> None:
    """Create the directories the nodes will mount."""
    for node in (HEAD, *spec.node_names):
        for name in OWN:
            path = Path(spec.path("node", node, name))
            path.mkdir(parents=True)
            path.chmod(STICKY if name == "tmp" else 0o755)


def become_owner() -> None:
    """As an ordinary user: a user namespace in which this user may create the rest."""
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def build(spec: Spec) -> dict[str, dict[str, int]]:
    """Create every node's namespaces and cables; return the open descriptors.

    Leaves the calling process in the last node's namespaces. Single-threaded callers
    only, as the kernel demands.
    """
    shared: dict[str, int] = {}
    if spec.owner != "root":
        become_owner()
        shared["user"] = hold("user")
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_SLAVE)
    if spec.root:
        newroot.move(spec)
    outside = hold("mnt")
    spaces = {HEAD: shared | create(spec, HEAD, outside)}
    with net.Link() as switch:
        switch.change(net.set_link(LOOPBACK_INDEX, up=True), "loopback of the head")
        switch.create(net.new_bridge(), "bridge")
        bridge = socket.if_nametoindex(net.BRIDGE)
        body = net.new_address(bridge, HEAD_ADDRESS, PREFIX_LENGTH)
        switch.add_address(body, "address of the head")
        for index, node in enumerate(spec.node_names, 1):
            spaces[node] = shared | create(spec, node, outside)
            cable = net.new_cable(node, bridge, INTERFACE, spaces[node]["net"])
            switch.create(cable, f"cable of {node}")
            connect(address(index))
    os.close(outside)
    return spaces


def hold(kind: str) -> int:
    """Open the namespace this process is in, so that it stays."""
    return os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def create(spec: Spec, node: str, outside: int) -> dict[str, int]:
    """Create one node's namespaces and move into them."""
    kernel.setns(outside, kernel.CLONE_NEWNS)
    kernel.unshare(kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS | kernel.CLONE_NEWNS)
    kernel.sethostname(node)
    furnish(spec, node)
    quiet = Path(net.ADDR_GEN_MODE)
    if quiet.exists():
        quiet.write_text("1")
    return {kind: hold(kind) for kind in ("net", "uts", "mnt")}


def furnish(spec: Spec, node: str) -> None:
    """Mount what a node has of its own, and what it shares with the others."""
    kernel.mount("tmpfs", "/run", "tmpfs", kernel.MS_NOSUID, "mode=0755")
    safe = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", "/dev/shm", "tmpfs", safe, "mode=1777")  # noqa: S108  mount point
    pairs = [(f"node/{node}/{name}", target) for name, target in OWN.items()]
    for source, target in [*pairs, *SHARED.items()]:
        point = Path(target)
        if point.is_relative_to("/run"):
            point.mkdir()
        if point.exists():
            kernel.bind(spec.path(source), target)


def connect(node_address: str) -> None:
    """Bring up the network of the node this process is in."""
    with net.Link() as link:
        link.change(net.set_link(LOOPBACK_INDEX, up=True), "loopback")
        index = socket.if_nametoindex(INTERFACE)
        body = net.new_address(index, node_address, PREFIX_LENGTH)
        link.add_address(body, f"address {node_address}")
        link.change(net.set_link(index, up=True), INTERFACE)


def enter(held: Mapping[str, int]) -> None:
    """Move this process into the namespaces behind open descriptors."""
    for kind, flag in KINDS:
        if kind in held:
            kernel.setns(held[kind], flag)


def reopen(state: State, node: str) -> dict[str, int]:
    """Open a node's namespaces through the keeper that holds them."""
    held = state.spaces[node]
    return {
        kind: os.open(f"/proc/{state.keeper}/fd/{descriptor}", os.O_RDONLY)
        for kind, descriptor in held.items()
    }


def set_cable(node: str, *, up: bool) -> None:
    """Plug a node's cable in or out; call it on the head."""
    with net.Link() as switch:
        body = net.set_link(socket.if_nametoindex(node), up=up)
        switch.change(body, f"cable of {node}")
