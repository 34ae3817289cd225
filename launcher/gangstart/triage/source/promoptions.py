"""Options that say where Prometheus is and how to prove who asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gangstart import job
from gangstart.triage.source.promhttp import Server, check, refuse

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

#: Option, its value's name, what it is for. Secrets are in files: argv is everybody's.
OPTIONS = (
    (
        "token-file",
        "FILE",
        "a file that holds the bearer token Prometheus asks for, and nothing else",
    ),
    ("user", "NAME", "the user it asks for, with --prometheus-password-file"),
    (
        "password-file",
        "FILE",
        "a file that holds that user's password, and nothing else",
    ),
    (
        "ca-file",
        "FILE",
        "certificates to trust for https://, in place of the system's (PEM)",
    ),
)


def add(parser: ArgumentParser) -> None:
    """Add the options to a verb's command line."""
    parser.add_argument(
        "--prometheus",
        metavar="URL",
        default=job.environ().get("GANGSTART_PROMETHEUS", ""),
        help="ask it how nodes and GPUs were (else GANGSTART_PROMETHEUS)",
    )
    for name, value, what in OPTIONS:
        parser.add_argument(
            f"--prometheus-{name}", metavar=value, default="", help=what
        )


def server(options: Namespace) -> Server | None:
    """The server that is meant; None if none is.

    Raises:
        GangstartError: an address that is none, options that do not fit, no such file.

    """
    made = Server(
        options.prometheus,
        token_file=options.prometheus_token_file,
        user=options.prometheus_user,
        password_file=options.prometheus_password_file,
        ca_file=options.prometheus_ca_file,
    )
    if not options.prometheus:
        named = [n for n, _, _ in OPTIONS if getattr(options, attribute(n))]
        if named:
            raise refuse(
                f"--prometheus-{named[0]} needs --prometheus URL (or "
                "GANGSTART_PROMETHEUS in the environment)"
            )
        return None
    check(made)
    for name in ("token-file", "password-file", "ca-file"):
        path = getattr(options, attribute(name))
        if path and not Path(path).is_file():
            raise refuse(f"--prometheus-{name} {path[:200]!r} is no file that exists")
    return made


def attribute(name: str) -> str:
    """Name of an option's value."""
    return f"prometheus_{name}".replace("-", "_")
