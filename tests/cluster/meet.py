"""A task that meets the others at MASTER_ADDR:MASTER_PORT, as a framework would.

Rank 0 binds the port at once, without SO_REUSEADDR, and accepts everybody; the others
connect and say their rank. Prints what happened, one line per task.
"""

import os
import socket
import time

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.socket() as listener:
        listener.bind(("", place[1]))
        listener.listen(world)
        listener.settimeout(20)
        heard = set()
        for _ in range(world - 1):
            connection, _ = listener.accept()
            with connection:
                heard.add(int(connection.recv(16)))
    print(rank, "heard", *sorted(heard))
else:
    end = time.monotonic() + 20
    while True:
        try:
            with socket.create_connection(place, timeout=20) as connection:
                connection.sendall(b"%d" % rank)
            break
        except ConnectionRefusedError:  # rank 0 is not as far yet
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
    print(rank, "met", *place)
