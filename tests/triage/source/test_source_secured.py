"""A real Prometheus behind TLS and a password, asked by the command as it is typed."""

from __future__ import annotations

import base64
import http.client
import shutil
import socket
import ssl
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from gangstart.cli import main
from gangstart.errors import GangstartError
from gangstart.triage import command
from gangstart.triage.model import Outcome
from gangstart.triage.source import promoptions
from gangstart.triage.source.prometheus import Prometheus, Window
from gangstart.triage.source.promhttp import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PASSWORD = "open sesame"  # noqa: S105 - of this test's own server
HASH = "$2b$04$3hXRvlPq7qqNTaPH8OpQPOFKmUAFIGwWqp0.AUhWsIhXudXvSvk4S"  # bcrypt of it
SPAN = Window(1_790_000_000.0, 1_790_000_600.0)
SELF_SIGNED = (
    *("openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
    *("-pkeyopt", "ec_paramgen_curve:prime256v1"),
)
NEEDED = ("prometheus", "openssl")


class Site:
    """The server, and files that prove who asks."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.url = folder, f"https://localhost:{port}"
        self.password = self.file("password", PASSWORD)

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(f"{text}\n")
        path.chmod(0o600)
        return str(path)

    @property
    def ca(self) -> str:
        return str(self.folder / "cert.pem")


def certificate(folder: Path) -> None:
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    subprocess.run(
        [*SELF_SIGNED, *names, "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=30,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} (apt-get install)")
    folder = tmp_path_factory.mktemp("secured")
    certificate(folder)
    (folder / "prometheus.yml").write_text("global: {}\n")
    (folder / "web.yml").write_text(
        f"tls_server_config: {{cert_file: {folder}/cert.pem, "
        f"key_file: {folder}/key.pem}}\nbasic_auth_users: {{reader: '{HASH}'}}\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    argv = [
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--web.config.file={folder}/web.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, cwd=folder)
    try:
        made = Site(folder, port)
        end = time.monotonic() + 60
        while not ready(made, port):
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            assert time.monotonic() < end, "Prometheus is not ready"
            time.sleep(0.05)
        yield made
    finally:
        process.terminate()
        process.wait(30)


def ready(site: Site, port: int) -> bool:
    """One plain request, without the code that is tested."""
    context = ssl.create_default_context(cafile=site.ca)
    pair = base64.b64encode(f"reader:{PASSWORD}".encode()).decode()
    link = http.client.HTTPSConnection("localhost", port, timeout=30, context=context)
    try:
        link.request("GET", "/-/ready", headers={"Authorization": f"Basic {pair}"})
        return link.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        link.close()


def asked(server: Server) -> tuple[Outcome, str]:
    _, state = Prometheus(server, 20).series({"n1": "n1"}, SPAN)
    return state.outcome, state.detail


def test_the_right_password_and_certificate_get_an_answer(site: Site) -> None:
    server = Server(
        site.url, user="reader", password_file=site.password, ca_file=site.ca
    )

    assert asked(server)[0] is Outcome.EMPTY


@pytest.mark.parametrize("what", ["password", "none", "certificate"])
def test_without_one_of_them_it_is_told_which(site: Site, what: str) -> None:
    wrong = site.file("wrong", "abracadabra")
    server, why = {
        "password": (
            Server(site.url, user="reader", password_file=wrong, ca_file=site.ca),
            "it refuses us (401)",
        ),
        "none": (Server(site.url, ca_file=site.ca), "--prometheus-user"),
        "certificate": (
            Server(site.url, user="reader", password_file=site.password),
            "its certificate is not trusted",
        ),
    }[what]

    outcome, detail = asked(server)

    assert outcome is Outcome.UNREACHABLE
    assert why in detail
    assert "abracadabra" not in detail


def test_options_as_they_are_typed_prove_who_asks(site: Site) -> None:
    argv = ["--prometheus", site.url, "--prometheus-user", "reader"]
    argv += ["--prometheus-ca-file", site.ca]
    argv += ["--prometheus-password-file", site.password]

    server = promoptions.server(command.parser().parse_args(argv))

    assert server is not None
    assert asked(server)[0] is Outcome.EMPTY
    assert PASSWORD not in repr(server)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--prometheus-user", "me"], "needs --prometheus URL"),
        (["--prometheus", "https://h", "--prometheus-user", "me"], "belong together"),
        (
            ["--prometheus", "https://h", "--prometheus-ca-file", "/no/such"],
            "'/no/such' is no file that exists",
        ),
        (
            ["--prometheus", "http://localhost:1", "--prometheus-ca-file", "/no/such"],
            "https:// is meant",
        ),
        (
            [
                *("--prometheus", "https://h", "--prometheus-user", "me:secret"),
                *("--prometheus-password-file", "/x"),
            ],
            "without a colon",
        ),
    ],
)
def test_options_that_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    why: str,
) -> None:
    monkeypatch.delenv("GANGSTART_PROMETHEUS", raising=False)
    try:
        code = main(["triage", "7877", *options])
    except GangstartError as error:
        code, said = error.exit_code, error.message
    else:
        said = capsys.readouterr().err

    assert code == 2
    assert why in said
