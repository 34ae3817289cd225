"""Lines of the meeting of ranks: TCPStore, torchelastic, gloo, MPI, JAX."""

from gangstart.triage.table.row import Row

RENDEZVOUS = (
    Row(
        "port_in_use",
        ("EADDRINUSE", "ddress already in use"),
        r"(?:port: (?P<port>\d+).*)?(?:EADDRINUSE|[Aa]ddress already in "
        r"use)(?:.*?:(?P<port2>\d{4,5})\b)?",
        "The server socket has failed to listen on any local network address. port: "
        "29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already "
        "in use",
        "PORT_IN_USE",
    ),
    Row(
        "name_unknown",
        (
            "gai error",
            "Name or service not known",
            "name resolution",
            "Could not resolve host",
            "nodename nor servname",
            "No address associated with hostname",
        ),
        r"(?:addresses of \(?\[?(?P<host>[^,\])\s]+)\]?, (?P<port>\d+)\).*?)?(?:gai "
        r"error|Name or service not known|[Tt]emporary failure in name resolution|"
        r"Could not resolve host|nodename nor servname|No address associated with "
        r"hostname)",
        "The IPv6 network addresses of (gn01-ib, 29500) cannot be retrieved (gai "
        "error: -2 - Name or service not known).",
        "BAD_MASTER_ADDR",
    ),
    Row(
        "connect_failed",
        ("client socket has failed to connect",),
        r"failed to connect to (?:any network address of "
        r")?[(\[]+(?P<host>[^\],)]+)\]?(?::|, )(?P<port>\d+)\)?(?:.*errno: "
        r"(?P<errno>\d+) - (?P<why>[^)]*))?",
        "[c10d] The client socket has failed to connect to [gn07]:29500 (errno: 111 - "
        "Connection refused).",
    ),
    Row(
        "connect_timeout",
        ("client socket has timed out",),
        r"client socket has timed out after (?P<timeout>\d+)(?P<unit>ms|s|) while "
        r"trying to connect to \(?\[?(?P<host>[^,\])\s]+)\]?(?:, |:)(?P<port>\d+)",
        "The client socket has timed out after 60000ms while trying to connect to "
        "(gn01, 29500).",
        "RENDEZVOUS_TIMEOUT",
    ),
    Row(
        "clients_missing",
        ("clients joined", "waiting for clients"),
        r"Timed out after (?P<timeout>\d+) seconds waiting for clients\. "
        r"(?P<joined>\d+)/(?P<wanted>\d+) clients joined",
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for "
        "clients. 15/16 clients joined.",
        "RENDEZVOUS_TIMEOUT",
    ),
    Row(
        "workers_missing",
        ("worker_count=",),
        r"world_size=(?P<wanted>\d+), worker_count=(?P<joined>\d+)",
        "Timed out initializing process group in store based barrier on rank: 3, for "
        "key: store_based_barrier_key:1 (world_size=8, worker_count=7, "
        "timeout=0:30:00)",
        "RENDEZVOUS_TIMEOUT",
    ),
    Row(
        "stale_incarnation",
        (
            "RendezvousClosedError",
            "previous incarnation",
            "incarnation",
            "stale",
            "already registered",
            "Duplicate rank",
            "SLURM_RESTART_COUNT",
            "restart",
            "duplicate rank",
        ),
        r"RendezvousClosedError|pid.*SLURM_RESTART_COUNT=\d|"
        r"restart(?:_count)?[ =:]*\d+\b.*(?:expected|this is|current(?:ly)?|now|"
        r"but)\W+(?:restart(?:_count)?\W+)?\d+|(?:previous|old|different|wrong|"
        r"another) (?:restart|attempt|incarnation)|incarnation (?:mismatch|id|changed|"
        r"\d)|stale (?:rank|worker|agent|connection|incarnation|member|key|store|"
        r"epoch)|[Dd]uplicate rank|(?:rank|task|worker|process) (?P<rank>\d+) "
        r".*already (?:registered|joined|connected)|different incarnation",
        "RendezvousClosedError: Rendezvous has already been closed",
        "STALE_INCARNATION",
    ),
    Row(
        "rendezvous_timeout",
        (
            "RendezvousTimeoutError",
            "RendezvousConnectionError",
            "DEADLINE_EXCEEDED",
            "Barrier timed out",
            "waitForInput: poll for socket",
            "gloo rendezvous",
            "connectFullMesh failed",
        ),
        r"RendezvousTimeoutError|RendezvousConnectionError|"
        r"DEADLINE_EXCEEDED.*(?:barrier|Barrier|connect|coordinat|RegisterTask)|"
        r"Barrier timed out|connectFullMesh failed",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        "RENDEZVOUS_TIMEOUT",
    ),
    Row(  # below the line above: the tasks that never came to the barrier
        "absent_task",
        ("/replica:",),
        r"^/job:\w+/replica:\d+/task:(?P<ranks>\d+)$",
        "/job:jax_worker/replica:0/task:3",
    ),
    Row(
        "socket_timeout",
        ("Socket Timeout", "wait timeout after"),
        r"(?:RuntimeError|DistStoreError|DistNetworkError|Error).*(?:Socket Timeout|"
        r"wait timeout after (?P<timeout>\d+)ms)",
        "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /worker",
        "RENDEZVOUS_TIMEOUT",
    ),
    Row(
        "store_lost",
        (
            "recvValue failed",
            "sendBytes failed",
            "recvVector failed",
            'Failed to check the "should dump" flag',
            "Broken pipe",
            "Connection reset by peer",
            "Connection closed by peer",
        ),
        r"(?:recvValue|recvVector|sendBytes) failed|should dump|Broken pipe|"
        r"Connection (?:reset|closed) by peer(?: \[(?P<peer>[\w.:]+)\]:\d+)?",
        "[c10d] recvValue failed on SocketImpl(fd=74, addr=[gn15]:41022, "
        "remote=[gn14]:61777): Connection reset by peer",
    ),
    Row(
        "elastic_root",
        ("Root Cause (first observed failure)",),
        r"Root Cause \(first observed failure\)",
        "Root Cause (first observed failure):",
    ),
    Row(
        "elastic_failed",
        ("failed (exitcode: ",),
        r"failed \(exitcode: (?P<exit>-?\d+)\) local_rank: (?P<local>\d+) \(pid: "
        r"(?P<pid>\d+)\)",
        "E0314 02:01:42.771000 118231 "
        "torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) "
        "local_rank: 3 (pid: 118247) of binary: /opt/venv/bin/python",
    ),
    Row(
        "elastic_signal",
        ("death signal", "closing signal", "SignalException"),
        r"Received (?P<signal>\d+) death signal|closing signal (?P<name>SIG\w+)|"
        r"SignalException: Process \d+ got signal: (?P<signal2>\d+)",
        "Received 15 death signal, shutting down workers",
    ),
    Row(
        "mpi_singleton",
        (
            "singletons will be started",
            "was not built with SLURM's PMI support",
            "No PMIx server was reachable",
            "not built with PMI",
            "PMI2_Init failed",
            "PMI_Init",
            "MPI reports size 1",
            "PMIX ERROR",
            "PMIx_Init failed",
            "OPAL ERROR",
        ),
        r"singletons will be started|not built with (?:SLURM's )?PMI|No PMIx server "
        r"was reachable|PMI2?_Init failed|PMI2?_Init returned|MPI reports size 1|"
        r"PMIx_Init failed|PMIX ERROR: (?:UNREACHABLE|PMIX_ERR_UNREACH|"
        r"PMIX_ERR_NOT_FOUND)|OPAL ERROR: Unreachable in file \S*pmix",
        "No PMIx server was reachable, but a PMI1/2 was detected.",
        "MPI_SINGLETON",
    ),
    Row(
        "mpi_hello",
        ("rank 0 of 1", "Rank 0 of 1", "rank 0/1", "rank 0 out of 1"),
        r"[Rr]ank 0 (?:out )?(?:of |/)\s?1\b|[Rr]ank 0/1\b",
        "hello from rank 0 of 1 on gn52",
    ),
    Row(
        "mpi_abort",
        ("MPI_ABORT", "MPI_Abort"),
        r"MPI_ABORT was invoked on rank (?P<rank>\d+) in communicator.*|application "
        r"called MPI_Abort\(.*?, (?P<exit>-?\d+)\) - process (?P<rank2>\d+)|"
        r"Abort\((?P<exit2>-?\d+)\) on node (?P<rank3>\d+)",
        "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
        "APP_EXIT",
    ),
    Row(
        "mpirun_signal",
        ("mpirun noticed", "mpiexec noticed", "prterun noticed", "exited on signal"),
        r"process rank (?P<rank>\d+) with PID \S+ on node (?P<node>[\w.-]+) exited on "
        r"signal (?P<number>\d+)(?: \((?P<signal>[^)]*)\))?",
        "mpirun noticed that process rank 3 with PID 1234 on node gn02 exited on "
        "signal 11 (Segmentation fault).",
    ),
    Row(  # PRRTE ends its line before the signal
        "mpirun_ended",
        ("prterun noticed", "mpirun noticed", "prun noticed"),
        r"process rank (?P<rank>\d+) with PID \S+ on node (?P<node>[\w.-]+) exited "
        r"on$",
        "prterun noticed that process rank 3 with PID 44120 on node gn02 exited on",
    ),
    Row(
        "mpi_bad_exit",
        ("EXIT CODE: ", "exited with non-zero status", "RUNNING AT "),
        r"PID \d+ RUNNING AT (?P<node>\S+)|EXIT CODE: (?P<exit>\d+)",
        "=   PID 4711 RUNNING AT gn02",
    ),
)
