"""A server on loopback that answers each request as a test wants."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Answer = Callable[[socket.socket, bytes], None]


def receive(link: socket.socket) -> bytes:
    """One request, with its body."""
    raw = b""
    while b"\r\n\r\n" not in raw:
        part = link.recv(65536)
        if not part:
            return raw
        raw += part
    head, _, body = raw.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        body += link.recv(65536)
    return head + b"\r\n\r\n" + body


def response(body: bytes | str, status: str = "200 OK", *headers: str) -> bytes:
    """A whole answer."""
    raw = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(raw)}", *headers]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + raw


def success(kind: str, result: list[Any]) -> bytes:
    """An answer of Prometheus."""
    data = {"resultType": kind, "result": result}
    return response(json.dumps({"status": "success", "data": data}))


@contextlib.contextmanager
def serve(answer: Answer) -> Iterator[tuple[str, list[bytes]]]:
    """Serve until the end of the block: the address, and the requests so far."""
    requests: list[bytes] = []
    over = threading.Event()

    def work(link: socket.socket) -> None:
        with link, contextlib.suppress(OSError):
            raw = receive(link)
            if raw:
                requests.append(raw)
                answer(link, raw)

    def accept() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                link, _ = listener.accept()
                link.settimeout(30)
                threading.Thread(target=work, args=(link,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        over.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)
