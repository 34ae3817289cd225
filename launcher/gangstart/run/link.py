"""One sealed connection between two ranks: JSON frames, each with an HMAC.

A frame is  size (4) | body | seal (32); the seal covers direction, both nonces, the
frame's number and the body, so frames can be neither forged, repeated nor reordered.
Anything else on the line ends it.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct

from gangstart import iface

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BODY_MAX = 4096
SIZE = struct.Struct(">I")
HEAD = struct.Struct(">cQ")
TO_HUB, TO_SPOKE = b"H", b"S"


class LinkBrokenError(Exception):
    """The other side is gone, or is not who it should be."""


def connected(address: str, port: int, timeout: float) -> socket.socket:
    """Connect to a numeric address in so many seconds; raises OSError.

    Without the resolver: Python loads its tables of international names for it (3 ms).
    """
    if ":" in address:
        return socket.create_connection((address, port), timeout=timeout)  # has scopes
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.settimeout(timeout)
        made.connect((address, port))
    except OSError:
        made.close()
        raise
    return made


class Link:
    """A connected socket; ``hub``: this end accepted it."""

    def __init__(self, peer: socket.socket, key: bytes, *, hub: bool) -> None:
        """Send our nonce; the other side's comes first on the line."""
        self.peer, self._key = peer, key
        peer.setblocking(False)  # noqa: FBT003 - the method's own signature
        for option, value in (
            (socket.TCP_KEEPIDLE, 10),
            (socket.TCP_KEEPINTVL, 5),
            (socket.TCP_KEEPCNT, 3),
        ):
            peer.setsockopt(socket.IPPROTO_TCP, option, value)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._out, self._in = (TO_SPOKE, TO_HUB) if hub else (TO_HUB, TO_SPOKE)
        self._hub = hub
        self._own = iface.random_bytes(iface.NONCE_SIZE)
        self._theirs = b""
        self._sent = self._got = 0
        self._buffer = b""
        self._waiting: list[dict[str, Any]] = []
        self._write(self._own)

    def _write(self, data: bytes) -> None:
        """Write at once: frames are few and small, they fit the kernel's buffer."""
        try:
            if self.peer.send(data) != len(data):
                raise LinkBrokenError("the other side does not read")
        except OSError as error:
            raise LinkBrokenError(error.strerror or str(error)) from error

    def _seal(self, direction: bytes, number: int, body: bytes) -> bytes:
        nonces = (self._own, self._theirs) if self._hub else (self._theirs, self._own)
        head = HEAD.pack(direction, number) + b"".join(nonces)
        return iface.seal(self._key, head, body)

    def send(self, message: dict[str, Any]) -> None:
        """Send, as soon as the other side's nonce is known."""
        if not self._theirs:
            self._waiting.append(message)
            return
        body = json.dumps(message).encode()
        self._write(
            SIZE.pack(len(body)) + body + self._seal(self._out, self._sent, body)
        )
        self._sent += 1

    @property
    def is_flushed(self) -> bool:
        """Whether everything was sent: nothing is before the other's nonce is here."""
        return not self._waiting

    def receive(self) -> list[dict[str, Any]]:
        """What has come; raises LinkBrokenError at the end of the line."""
        messages: list[dict[str, Any]] = []
        while True:
            try:
                data = self.peer.recv(1 << 16)
            except BlockingIOError:
                return messages
            except OSError as error:
                raise LinkBrokenError(error.strerror or str(error)) from error
            if not data:
                if messages:
                    return messages  # the end is still there the next time
                raise LinkBrokenError("it hung up")
            self._buffer += data
            messages += self._frames()

    def _frames(self) -> list[dict[str, Any]]:
        if not self._theirs and len(self._buffer) >= iface.NONCE_SIZE:
            self._theirs = self._buffer[: iface.NONCE_SIZE]
            self._buffer = self._buffer[iface.NONCE_SIZE :]
            waiting, self._waiting = self._waiting, []
            for message in waiting:
                self.send(message)
        found: list[dict[str, Any]] = []
        while self._theirs and len(self._buffer) >= SIZE.size:
            (size,) = SIZE.unpack_from(self._buffer)
            end = SIZE.size + size + iface.MAC_SIZE
            if size > BODY_MAX:
                raise LinkBrokenError("it sent a frame that is too large")
            if len(self._buffer) < end:
                break
            body = self._buffer[SIZE.size : SIZE.size + size]
            mark = self._buffer[SIZE.size + size : end]
            if not iface.same(mark, self._seal(self._in, self._got, body)):
                raise LinkBrokenError("its seal is wrong")
            self._got += 1
            self._buffer = self._buffer[end:]
            found.append(json.loads(body))
        return found

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):  # a reset that was still to be told
            self.peer.close()
