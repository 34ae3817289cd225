"""Time of torch's TCPStore for CLIENTS clients: connect, add, wait for all.

Prints milliseconds, and microseconds of CPU time per client on all sides.

Eight processes share the clients and serve them one after the other, which spares
TCPStore the threads that so many ranks on one machine would need.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from importlib import import_module
from typing import Any

PROCESSES = 8
#: torch need not be there when this file is checked.
TCPStore: Any = import_module("torch.distributed").TCPStore
LIMIT = timedelta(seconds=120)


def store_at(port: int, world: int, *, serve: bool) -> Any:  # noqa: ANN401 - torch's
    """Connect one client, or serve them all."""
    return TCPStore(
        "127.0.0.1",
        port,
        world,
        is_master=serve,
        timeout=LIMIT,
        wait_for_workers=False,
    )


def share(port: int, world: int, count: int) -> None:
    """Run one process's clients."""
    stores = []
    for _ in range(count):
        stores.append(store_at(port, world, serve=False))
        if stores[-1].add("arrived", 1) == world:
            stores[-1].set("all", "yes")
    for store in stores:
        store.wait(["all"])


def main() -> int:
    """Serve, fork the clients, wait for them."""
    world = int(sys.argv[1])
    ready, go = os.pipe()
    children = []
    for index in range(PROCESSES):
        pid = os.fork()
        if pid == 0:
            os.close(go)
            port = int(os.read(ready, 5))
            share(port, world, len(range(index, world, PROCESSES)))
            os._exit(0)
        children.append(pid)
    store = store_at(0, world, serve=True)
    begun, before = time.monotonic(), sum(os.times()[:2])
    os.write(go, f"{store.port:5d}".encode() * PROCESSES)
    codes = [os.waitpid(pid, 0)[1] for pid in children]
    wall = time.monotonic() - begun
    used = os.times()
    cpu = sum(used[:4]) - before
    print(wall * 1000, cpu / world * 1e6)
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
