"""The wires: InfiniBand, RoCE and TCP, and which end of them is at fault."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gangstart.triage.cause import LINK, SYMPTOM, Cause, Facts, commonest
from gangstart.triage.model import Confidence
from gangstart.triage.rule.hardware import is_stale
from gangstart.triage.series import grown

if TYPE_CHECKING:
    from gangstart.triage.model import Event
    from gangstart.triage.series import Grown

#: Counters of a port: while a link trains anew nothing passes, so one counts.
BROKEN = ("ib_link_downed", "ib_link_recoveries")
#: Errors that any port counts now and then: only many, and many more than the others'.
#: infiniband-diags' ibcheckerrors warns from 10 in a port's life; ours are of one job.
ERRORS = (
    "ib_retransmits",
    "ib_ack_timeouts",
    "ib_symbol_errors",
    "ib_integrity_errors",
    "ib_receive_errors",
    "ib_sequence_errors",
)
MANY, TIMES = 10.0, 10.0
#: Interfaces that come and go with containers and virtual machines.
VIRTUAL = ("veth", "docker", "br-", "cali", "virbr", "tap", "lo", "cni", "flannel")


def infiniband(facts: Facts) -> list[Cause]:
    """InfiniBand or RoCE: a port, a cable, a peer that no longer answers."""
    links = [e for e in facts.of("ib_link") if not is_stale(facts, e)]
    links = [e for e in links if not facts.nodes or e.node in {None, *facts.nodes}]
    talk = facts.of("ib_completion", "ofi_completion", "ib_event", "ib_call")
    ports = _grown(facts)
    counters: dict[str, float] = {}
    for one in ports:
        counters[one.series.node] = counters.get(one.series.node, 0.0) + one.by
    waits = facts.of("nccl_watchdog")
    if not talk and not links and not (waits and len(counters) == 1):
        return []
    node, how = _suspect(facts, links, talk, counters)
    hca = commonest(
        value
        for e in talk + links
        if (value := e.fields.get("hca") or e.fields.get("hca2"))
    )
    what = "the InfiniBand or RoCE network failed"
    if hca:
        what += f", adapter {hca}"
    if node:
        what += f", suspect {node} ({how})"
    cause = Cause(
        "NET_IB",
        LINK if talk or counters else SYMPTOM,
        [*links, *talk, *(one.event for one in ports)],
        node,
        confidence=Confidence.LIKELY if node else Confidence.POSSIBLE,
        what=what,
        notes=[
            f"{one} counted {value:.0f} link errors" for one, value in counters.items()
        ],
    )
    if not talk and not facts.of("nccl_watchdog", "nccl_socket", "nccl_remote"):
        cause.noise = "no rank complained about the network"
    return [cause]


def _grown(facts: Facts) -> list[Grown]:
    """Counters of ports that grew by more than what any link counts now and then."""
    broken = grown(facts, *BROKEN)
    if broken:
        return broken
    found = grown(facts, *ERRORS, least=MANY)
    most = max((one.by for one in found), default=0.0)
    return [one for one in found if one.by * TIMES >= most]


def _suspect(
    facts: Facts, links: list[Event], talk: list[Event], counters: dict[str, float]
) -> tuple[str | None, str]:
    """The node that all complaints have in common: not the ones that complain."""
    down = {e.node for e in links if e.node}
    if len(down) == 1:
        return down.pop(), "its kernel log says the link went down"
    own = {e.node for e in talk if e.kind == "ib_event" and e.node}
    if len(own) == 1:
        return own.pop(), "its adapter reported the error"
    common = common_peer(facts, talk)
    if common:
        return common
    if len(counters) == 1:
        return next(iter(counters)), "its error counters grew"
    return None, ""


def common_peer(facts: Facts, talk: list[Event]) -> tuple[str, str] | None:
    """The peer that several name, or the one that complains about several."""
    pairs = [(e.node, peer_node(facts, e)) for e in talk]
    known = [(one, peer) for one, peer in pairs if peer]
    peers = {peer for _, peer in known}
    if len(peers) == 1:
        peer = peers.pop()
        many = len({one for one, _ in known}) > 1
        return peer, "all complaints name it" if many else "the complaint names it"
    speakers = {one for one, _ in known if one}
    if len(speakers) == 1 and len(peers) > 1:
        return speakers.pop(), "it alone complains, about several others"
    counted = Counter(peer for _, peer in known).most_common(2)
    if len(counted) > 1 and counted[0][1] > counted[1][1]:
        return str(counted[0][0]), "most complaints name it"
    return None


def peer_node(facts: Facts, event: Event) -> str | None:
    """Node of the other end that a line names."""
    peer = next(
        (event.fields[k] for k in ("peer", "peer2", "peer3") if k in event.fields), None
    )
    if peer is None:
        return None
    address = peer.split("<")[0].strip("[]")
    known = facts.trace.layout.address_node
    if address in known:
        return known[address]
    name = address.split(".", 1)[0]
    return name if name in facts.nodes else (address if address else None)


def socket(facts: Facts) -> list[Cause]:
    """TCP: a connection was refused, reset, timed out."""
    events = facts.of("nccl_socket", "nccl_remote")
    lost = [e for e in facts.of("store_lost") if "recvValue" not in e.text]
    events = events or lost
    if not events:
        return []
    common = common_peer(facts, events)
    cut = [
        one
        for one in grown(facts, "net_carrier_changes")
        if not one.series.device.startswith(VIRTUAL)
    ]
    what = "a TCP connection between ranks broke, and nothing says why"
    node = None
    if common and (common[0] in facts.nodes or not facts.nodes):
        node = common[0]
        what = f"a TCP connection to {node} broke ({common[1]}); nothing says why"
    if len({one.series.node for one in cut}) == 1:
        node, device = cut[0].series.node, cut[0].series.device
        what = (
            f"a TCP connection broke: {device} of {node} lost its link and got it back"
        )
        events = [*events, *(one.event for one in cut)]
    return [
        Cause(
            "NET_SOCKET",
            SYMPTOM,
            events,
            node,
            confidence=Confidence.LIKELY if node else Confidence.POSSIBLE,
            what=what,
        )
    ]


RULES = (infiniband, socket)
