"""A crowd of strangers: crowd.py COUNT READY ADDRESS:PORT...

Keeps COUNT connections to each place, new ones for those that are closed: a third of
them silent, a third sending noise, a third the beginning of what a node would send.
Makes the file READY once all were connected. Ends when its standard input does.
"""

from __future__ import annotations

import os
import pathlib
import select
import socket
import sys
from contextlib import suppress

SAY = (b"", os.urandom(300), b"GSW1\x02\x01\x00\x00\x00\x00\x10\x00GSM1")
Place = tuple[str, int]


def connect(place: Place, number: int) -> socket.socket | None:
    """Connect one stranger; None if it is not let in now."""
    made = socket.socket()
    made.settimeout(2)
    try:
        made.connect(place)
        made.sendall(SAY[number % len(SAY)])
    except OSError:
        made.close()
        return None
    made.setblocking(False)  # noqa: FBT003  socket's own
    return made


def is_open(peer: socket.socket) -> bool:
    """Tell whether a connection stands; reads what has come."""
    with suppress(BlockingIOError):
        try:
            while peer.recv(4096):
                pass
        except ConnectionError:
            pass
        return False
    return True


def main(count: int, ready: pathlib.Path, places: list[Place]) -> None:
    """Keep the connections until standard input ends."""
    peers: dict[tuple[Place, int], socket.socket] = {}
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        for key in [(place, n) for place in places for n in range(count)]:
            if key in peers and not is_open(peers[key]):
                peers.pop(key).close()
            if key not in peers and (made := connect(*key)):
                peers[key] = made
        if len(peers) > len(places) * count // 2:
            ready.touch()


if __name__ == "__main__":
    split = [word.rpartition(":") for word in sys.argv[3:]]
    main(
        int(sys.argv[1]),
        pathlib.Path(sys.argv[2]),
        [(address, int(port)) for address, _, port in split],
    )
