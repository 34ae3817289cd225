"""Run something in a process of its own, with a deadline.

Reading /proc of a process that hangs in the kernel can hang the reader too, where no
signal reaches it. So the reader is a fork: when it does not answer in time it is left
behind, without anything of ours that somebody waits for.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
BLOCK = 1 << 16
LENGTH = 8  # bytes before the answer: one that was cut off is none


def call(function: Callable[[], T], deadline_s: float) -> T | None:
    """What the function returned; None if it did not in time, or broke."""
    readable, writable = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        os.close(readable)
        answer(function, writable)
    os.close(writable)
    raw = b""
    try:
        raw = read_until(readable, monotonic() + deadline_s)
    finally:
        os.close(readable)
        end(child, answered=bool(raw))
    head, body = raw[:LENGTH], raw[LENGTH:]
    if not body or int.from_bytes(head, "big") != len(body):
        return None
    # Written by a fork of this very process, which holds what this one would hold.
    answered: T = pickle.loads(body)  # noqa: S301
    return answered


def answer(function: Callable[[], object], fd: int) -> None:
    """Live the child's life: it never returns, and keeps nobody's pipe open."""
    code = 1
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        body = pickle.dumps(function())
        raw = len(body).to_bytes(LENGTH, "big") + body
        sent = 0
        while sent < len(raw):
            sent += os.write(fd, raw[sent : sent + BLOCK])
        code = 0
    finally:
        os._exit(code)  # the parent's exit handlers are not ours to run


def read_until(fd: int, deadline: float) -> bytes:
    """Everything that is written until the end; b"" if that did not come in time."""
    parts: list[bytes] = []
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while (left := deadline - monotonic()) > 0:
        if not poll.poll(left * 1000):
            continue
        part = os.read(fd, BLOCK)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return b""


def end(child: int, *, answered: bool) -> None:
    """Reap the child if it is done; kill it otherwise, and do not wait for that."""
    if answered:  # the pipe's end came with the child's
        os.waitpid(child, 0)
        return
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, os.WNOHANG)
