"""Answers the nodes that try to reach this machine as they would reach an srun here.

It listens for as long as the nodes are asked, sends each caller one line with the time,
and reads nothing.
"""

from __future__ import annotations

import contextlib
import errno
import random
import secrets
import socket
import threading
import time
from typing import TYPE_CHECKING

from gangstart.doctor.facts import GREETING

if TYPE_CHECKING:
    from types import TracebackType

TRIES = 200
POLL_S = 0.2
SEND_S = 2.0


class Greeter:
    """A listening socket and the thread that serves it."""

    def __init__(self, low: int = 0, high: int = 0) -> None:
        """Prepare to listen on a free port of a range; 0: on any."""
        self._range = (low, high)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._socket: socket.socket | None = None
        self.nonce = secrets.token_hex(8)
        self.port = 0
        self.problem = ""

    def __enter__(self) -> Greeter:
        """Listen; where that cannot be, `problem` says why and port is 0."""
        try:
            self._socket = listen(*self._range)
        except OSError as error:
            self.problem = error.strerror or str(error)
            return self
        self.port = self._socket.getsockname()[1]
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Stop listening."""
        self._stop.set()
        if self._socket:
            self._thread.join(10)
            self._socket.close()

    def _serve(self) -> None:
        """Greet everybody who comes."""
        assert self._socket is not None  # noqa: S101 - started only with one
        self._socket.settimeout(POLL_S)
        while not self._stop.is_set():
            with contextlib.suppress(OSError):  # nobody came, or he hung up
                caller, _ = self._socket.accept()
                with caller:
                    caller.settimeout(SEND_S)
                    now = time.time_ns() // 1000
                    caller.sendall(f"{GREETING} {self.nonce} {now}\n".encode())


def listen(low: int, high: int) -> socket.socket:
    """Open a socket on a free port of low..high, all addresses; OSError if none is."""
    span = range(low, high + 1) if low else range(1)
    ports = random.sample(span, min(len(span), TRIES))
    for port in ports:
        with contextlib.suppress(OSError):  # somebody else has it
            return listen_at(port)
    raise OSError(errno.EADDRINUSE, f"no port of {low}-{high} is free")


def listen_at(port: int) -> socket.socket:
    """Open a socket on one port, or on any (0); OSError if it is taken."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512
        )
    return socket.create_server(("", port), backlog=512)
