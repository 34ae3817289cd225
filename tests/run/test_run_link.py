"""The line between ranks: what is not sealed by this start ends it."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from gangstart.run.link import Link, LinkBrokenError

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = bytes(range(32))


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname(), timeout=5)
        far, _ = server.accept()
        with near, far:
            yield near, far


def receive(link: Link, others: list[Link]) -> list[dict[str, Any]]:
    """Wait for messages while the other ends go on as well."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        for other in others:
            other.receive()
        found = link.receive()
        if found:
            return found
    pytest.fail("nothing came within 5 s")


def linked(pair: tuple[socket.socket, socket.socket]) -> tuple[Link, Link]:
    return Link(pair[0], KEY, hub=False), Link(pair[1], KEY, hub=True)


def test_messages_go_both_ways(pair: tuple[socket.socket, socket.socket]) -> None:
    spoke, hub = linked(pair)
    spoke.send({"rank": 1})
    assert not spoke.is_flushed

    assert receive(hub, [spoke]) == [{"rank": 1}]
    hub.send({"first": None})
    assert receive(spoke, []) == [{"first": None}]


def test_another_key_ends_the_line(pair: tuple[socket.socket, socket.socket]) -> None:
    spoke, hub = Link(pair[0], bytes(32), hub=False), Link(pair[1], KEY, hub=True)
    spoke.send({"status": 0})

    with pytest.raises(LinkBrokenError, match="seal"):
        receive(hub, [spoke])


def test_a_frame_said_twice_ends_the_line(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, far = pair
    hub = Link(far, KEY, hub=True)
    theirs = near.recv(16)
    spoke = Link(near, KEY, hub=False)
    # Speak in the spoke's name once, byte for byte, twice.
    head, tail = socket.socketpair()
    with head, tail:
        spoke.peer, spoke._theirs = head, theirs  # noqa: SLF001 - a forger's hands
        spoke.send({"status": 0})
        frame = tail.recv(4096)
    near.setblocking(True)  # noqa: FBT003 - the method's own signature
    near.sendall(frame)
    assert receive(hub, []) == [{"status": 0}]
    near.sendall(frame)

    with pytest.raises(LinkBrokenError, match="seal"):
        receive(hub, [])


def test_a_huge_frame_ends_the_line(pair: tuple[socket.socket, socket.socket]) -> None:
    hub = Link(pair[1], KEY, hub=True)
    pair[0].sendall(bytes(16) + b"\xff\xff\xff\xff")

    with pytest.raises(LinkBrokenError, match="too large"):
        receive(hub, [])


def test_the_end_of_the_line_comes_after_what_was_said(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    spoke, hub = linked(pair)
    spoke.send({"status": 3})
    until = time.monotonic() + 5
    while not spoke.is_flushed and time.monotonic() < until:
        spoke.receive()
    spoke.close()

    assert receive(hub, []) == [{"status": 3}]
    with pytest.raises(LinkBrokenError):
        receive(hub, [])
