"""One request to a Prometheus server: bounded in time and bytes, never redirected.

The standard library's client is enough here: of a library only the sending of a form
would be used, and none ends a request as a whole at a deadline. A thread does that: a
server that trickles is cut off by closing its socket, a name server that hangs is left
to the thread.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import json
import os
import socket
import ssl
import stat
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Mapping

BODY_BYTES = 64 << 20
BLOCK = 1 << 16
SECRET_BYTES = 1 << 16
SAID = 160
OK, METHOD_NOT_ALLOWED = 200, 405
REDIRECTS = range(300, 400)
DENIED = (401, 403)
EXIT_USAGE = 2


class PrometheusError(Exception):
    """No usable answer; says why."""


@dataclass(frozen=True)
class Server:
    """Where Prometheus is and how to prove who asks. Secrets come from files only."""

    url: str
    token_file: str = ""  # a bearer token
    user: str = ""
    password_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)  # such as X-Scope-OrgID

    @property
    def shown(self) -> str:
        """The address, for messages."""
        return self.url.rstrip("/")


def check(server: Server) -> None:
    """Refuse an address or a way to prove oneself that cannot be meant."""
    try:
        parts = urlsplit(server.url)
        _ = parts.port
    except ValueError as error:
        raise refuse(
            f"--prometheus {server.url[:80]!r} is no address: {error}"
        ) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise refuse(
            f"--prometheus {server.url[:80]!r} is no address: http://HOST:PORT or "
            "https://HOST[:PORT][/PATH] is meant"
        )
    if parts.username or parts.password:
        raise refuse(
            "--prometheus: no user and password in the address, where others can read "
            "them: give --prometheus-user NAME and --prometheus-password-file FILE, or "
            "--prometheus-token-file FILE"
        )
    check_secrets(server, parts.scheme, parts.hostname)


def check_secrets(server: Server, scheme: str, host: str) -> None:
    """Refuse a way to prove oneself that does not fit."""
    secret = server.token_file or server.password_file
    if secret and scheme == "http" and not loopback(host):
        raise refuse(
            f"--prometheus {server.url[:80]}: a token or password is not sent without "
            "TLS to another machine: use https://"
        )
    if server.token_file and (server.user or server.password_file):
        raise refuse("--prometheus: a token or a user with password, not both")
    if bool(server.user) != bool(server.password_file):
        raise refuse(
            "--prometheus: --prometheus-user NAME and --prometheus-password-file FILE "
            "belong together"
        )
    if ":" in server.user:
        raise refuse(
            "--prometheus-user: a name without a colon (HTTP's Basic scheme takes what "
            "is after it for the password), and no password"
        )
    if server.ca_file and scheme == "http":
        raise refuse(
            "--prometheus-ca-file: http:// has no certificates: https:// is meant"
        )


def refuse(sentence: str) -> GangstartError:
    """Make the error for a bad option."""
    return GangstartError(f"triage: {sentence}", exit_code=EXIT_USAGE)


def loopback(name: str) -> bool:
    """Whether a host is this machine itself."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def secret_in(path: str) -> str:
    """Read a secret: one line of a file that only its owner may read."""
    try:
        with Path(path).open("rb") as file:
            info = os.fstat(file.fileno())
            raw = file.read(SECRET_BYTES)
    except OSError as error:
        raise PrometheusError(f"{path}: {error.strerror}") from error
    if info.st_mode & (stat.S_IRWXG | stat.S_IRWXO) & ~stat.S_IRGRP:
        raise PrometheusError(
            f"{path} holds a secret and everybody may read or change it: chmod 600"
        )
    text = raw.decode(errors="replace").strip()
    if not text or not text.isprintable():
        raise PrometheusError(f"{path} holds no secret of one line")
    return text


def authorization(server: Server) -> dict[str, str]:
    """Headers that prove who asks."""
    if server.token_file:
        return {"Authorization": f"Bearer {secret_in(server.token_file)}"}
    if server.user:
        password = secret_in(server.password_file) if server.password_file else ""
        pair = base64.b64encode(f"{server.user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {}


def tls(server: Server) -> ssl.SSLContext:
    """Trust and own certificate as configured; the name is always checked."""
    try:
        context = ssl.create_default_context(cafile=server.ca_file or None)
        if server.cert_file:
            context.load_cert_chain(server.cert_file, server.key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise PrometheusError(f"its certificates: {error}") from error
    return context


class Request:
    """One request, done in a thread that may be left behind."""

    def __init__(self, server: Server, path: str, form: Mapping[str, str]) -> None:
        """Remember what to ask."""
        self.server, self.path, self.form = server, path, form
        self.socket: socket.socket | None = None
        self.told: bytes = b""
        self.error: Exception | None = None
        self.end = 0.0

    def run(self) -> None:
        """Do it; the thread's body."""
        try:
            self.told = self.attempt("POST")
        except (
            OSError,
            http.client.HTTPException,
            PrometheusError,
            ValueError,
        ) as error:
            self.error = error

    def attempt(self, method: str) -> bytes:
        """Ask by one method; a proxy that only lets GET through is asked so."""
        parts = urlsplit(self.server.url)
        target = parts.path.rstrip("/") + self.path
        form = urlencode(self.form)
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            **self.server.headers,
            **authorization(self.server),
        }
        body = form if method == "POST" else None
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        link = self.connect(parts.scheme, str(parts.hostname), parts.port)
        try:
            link.request(method, target if body else f"{target}?{form}", body, headers)
            with link.getresponse() as answer:
                if answer.status != METHOD_NOT_ALLOWED or method != "POST":
                    return self.body(answer)
        finally:
            link.close()
        return self.attempt("GET")

    def connect(
        self, scheme: str, name: str, number: int | None
    ) -> http.client.HTTPConnection:
        """Connect, and keep the socket where the deadline can close it."""
        left = max(self.end - time.monotonic(), 0.1)
        link = (
            http.client.HTTPSConnection(
                name, number, timeout=left, context=tls(self.server)
            )
            if scheme == "https"
            else http.client.HTTPConnection(name, number, timeout=left)
        )
        link.connect()
        self.socket = link.sock
        return link

    def body(self, answer: http.client.HTTPResponse) -> bytes:
        """Read the answer up to its most."""
        if answer.status in REDIRECTS:
            to = answer.getheader("Location", "somewhere else")[:SAID]
            raise PrometheusError(f"it sends to {to}: give that address if it is right")
        if answer.status in DENIED:
            raise PrometheusError(
                f"it refuses us ({answer.status}): see --prometheus-token-file and "
                "--prometheus-user"
            )
        parts: list[bytes] = []
        size = 0
        while part := answer.read(BLOCK):
            size += len(part)
            if size > BODY_BYTES:
                raise PrometheusError(
                    f"its answer is larger than {BODY_BYTES >> 20} MiB"
                )
            parts.append(part)
        raw = b"".join(parts)
        if answer.status != OK and not raw.lstrip().startswith(b"{"):
            raise PrometheusError(f"it answers {answer.status} {answer.reason[:SAID]}")
        return raw


def ask(
    server: Server, path: str, form: Mapping[str, str], deadline_s: float
) -> dict[str, Any]:
    """Data of one query. Raises PrometheusError with the reason, in time."""
    request = Request(server, path, form)
    request.end = time.monotonic() + deadline_s
    worker = threading.Thread(target=request.run, daemon=True)
    worker.start()
    worker.join(deadline_s)
    if worker.is_alive():
        close(request.socket)
        raise PrometheusError(f"it did not answer within {deadline_s:.3g} s")
    if request.error is not None:
        raise PrometheusError(reason(request.error, deadline_s)) from request.error
    return data(request.told)


def close(link: socket.socket | None) -> None:
    """Cut a connection that another thread reads from."""
    if link is None:
        return
    try:
        link.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def reason(error: Exception, deadline_s: float) -> str:
    """Say an error of the network in words."""
    if isinstance(error, PrometheusError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"it did not answer within {deadline_s:.3g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError):
        return error.strerror or str(error)[:SAID] or type(error).__name__
    return f"it does not speak HTTP: {str(error)[:SAID] or type(error).__name__}"


def data(raw: bytes) -> dict[str, Any]:
    """The data of an answer of Prometheus's HTTP API."""
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise PrometheusError(
            "what it answers is not JSON: is it Prometheus?"
        ) from error
    if not isinstance(told, dict):
        raise PrometheusError("what it answers is no object: is it Prometheus?")
    if told.get("status") != "success":
        said = " ".join(str(told.get("error", "an unknown error")).split())[:SAID]
        raise PrometheusError(f"it says: {said}")
    found = told.get("data")
    if not isinstance(found, dict):
        raise PrometheusError("its answer holds no data: is it Prometheus?")
    return found
