"""Rank 0 may not have one more descriptor: who waits for it is not left waiting."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from typing import TYPE_CHECKING

import pytest
from gangstart.errors import GangstartError
from gangstart.run.controlhub import Hub
from gangstart.run.marks import Marks
from gangstart.run.meet import Holder, accepted, listen
from gangstart.run.startup import Released

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = bytes(range(32))
SAID = (
    "rank 0 cannot take one more connection: Too many open files; allow it more than "
    "one for each rank (ulimit -n)"
)


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    """As with a ulimit -n that the step has used up."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    first_free = os.dup(0)
    os.close(first_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def caller(port: int) -> socket.socket:
    """Somebody who waits to be accepted."""
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def test_a_full_table_of_descriptors_is_one_sentence_and_78() -> None:
    with listen(0) as listening, caller(listening.getsockname()[1]):
        with no_descriptor_left(), pytest.raises(GangstartError) as told:
            list(accepted(listening))
        assert (told.value.message, told.value.exit_code) == (SAID, 78)

        (peer,) = accepted(listening)  # as soon as there is room
        peer.close()


def test_the_holder_of_master_port_says_so() -> None:
    holder = Holder((7, 0), "n1", "")
    with caller(holder.port), no_descriptor_left():
        with pytest.raises(GangstartError, match="ulimit -n"):
            holder.serve(KEY)
        holder.close()


def test_rank_0_warns_and_lets_the_program_run(
    capfd: pytest.CaptureFixture[str],
) -> None:
    listening = listen(0)
    port = listening.getsockname()[1]
    released = Released(0, "n1", 2, {}, (), ("127.0.0.1", port), KEY, listening)
    hub = Hub(released, listening)
    with caller(port) as waits:
        with no_descriptor_left():
            hub.poll()
        with pytest.raises(ConnectionResetError):  # it hears it from the kernel
            waits.recv(1)
    hub.poll()

    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"gang-start: warning: {SAID}: if one of the ranks")
    assert line.endswith("only the launcher ends the others")
    assert (hub.first, hub.sockets()) == (None, [])
    hub.close()


def test_a_full_disk_only_means_that_nobody_knows_who_called() -> None:
    marks = Marks("", "/nonexistent")
    marks._fd = os.open("/dev/full", os.O_RDWR)  # noqa: SLF001 - as a full TMPDIR
    marks.add(0, 0)

    assert marks.path
    os.close(marks._fd)  # noqa: SLF001 - close() would remove a file
