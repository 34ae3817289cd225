"""Lines of NCCL and RCCL and of PyTorch's process groups over them."""

from gangstart.triage.table.row import Row

NCCL = (
    Row(
        "nccl_watchdog",
        ("Watchdog caught collective operation timeout",),
        r"(?:\[Rank (?P<rank>\d+)\] )?Watchdog caught collective operation timeout: "
        r"Work\w+\(SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+)(?:, NumelIn=(?P<in>\d+), "
        r"NumelOut=(?P<out>\d+))?(?:, TensorShape=(?P<shape>\[[^\]]*\]))?, "
        r"Timeout\(ms\)=(?P<timeout>\d+)\) ran for (?P<ran>\d+) milliseconds",
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7753, "
        "OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600061 "
        "milliseconds before timing out.",
        "NCCL_TIMEOUT",
    ),
    Row(
        "nccl_progress",
        ("ast enqueued",),
        r"(?:PG (?:ID )?(?P<pg>\w+)[^\]]*Rank (?P<rank>\d+)\].*?)?(?:(?:work sequence "
        r"id: |(?:at )?(?:NCCL )?work: )(?P<seq>-?\d+).*?)?[Ll]ast enqueued (?:NCCL "
        r")?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: "
        r"(?P<completed>-?\d+)",
        "[PG ID 0 PG GUID 0(default_pg) Rank 4] failure detected by watchdog at work "
        "sequence id: 9141 PG status: last enqueued work: 9141, last completed work: "
        "9140",
    ),
    Row(
        "nccl_heartbeat",
        ("Heartbeat monitor timed out", "watchdog got stuck for"),
        r"Heartbeat monitor timed out|watchdog got stuck for (?P<after>\d+) seconds",
        "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making "
        "progress in monitoring enqueued collectives.",
        "NCCL_TIMEOUT",
    ),
    Row(
        "fr_missing",
        ("Missing ranks", "haven't joined", "have not joined", "not all ranks joined"),
        r"(?i)missing ranks:? ?[\[{(]?(?P<ranks>[\d, ]+)|ranks? "
        r"[\[{(]?(?P<ranks2>[\d, ]+?)[\]})]? (?:haven't|have not|has not) joined",
        "Not all ranks joining collective 50 for group default_pg, Missing ranks: {5}",
    ),
    Row(
        "stall",
        ("[allreduce", "[allgather", "[broadcast", "[alltoall", "Allreduce."),
        r"^(?:(?P<ranks>\d+): )?\[(?:allreduce|allgather|broadcast|alltoall)[.\w]",
        "6: [allreduce.grad_12, allreduce.grad_13] (Horovod's stall inspector)",
    ),
    Row(
        "monitored_barrier",
        ("monitoredBarrier",),
        r"Ranks? (?P<ranks>[\d, ]+) failed to pass monitoredBarrier in "
        r"(?P<timeout>\d+) ms",
        "RuntimeError: Rank 5 failed to pass monitoredBarrier in 1800000 ms",
    ),
    Row(
        "collective_mismatch",
        ("Mismatched collective", "Detected mismatch between collectives"),
        r"Mismatched collective detected.*at and around rank (?P<rank>\d+)|Detected "
        r"mismatch between collectives on ranks\. Rank (?P<rank2>\d+) is running "
        r"collective: CollectiveFingerPrint\((?P<one>.*?)\),? but Rank (?P<other>\d+) "
        r"is running collective: CollectiveFingerPrint\((?P<two>.*?)\)",
        "gn85:1:1 [3] enqueue.cc:1247 NCCL WARN Mismatched collective detected, "
        "please check your collective calls at and around rank 11.",
        "COLLECTIVE_MISMATCH",
    ),
    Row(
        "duplicate_gpu",
        ("Duplicate GPU detected",),
        r"Duplicate GPU detected ?: rank (?P<rank>\d+) and rank (?P<other>\d+) both "
        r"on CUDA device (?P<pci>[0-9a-f]+)",
        "gn33:210:233 [0] init.cc:943 NCCL WARN Duplicate GPU detected : rank 1 and "
        "rank 0 both on CUDA device 1b000",
        "DUPLICATE_GPU",
    ),
    Row(
        "nccl_shm",
        ("/dev/shm/nccl-", "shared memory segment"),
        r"(?:failed to extend|creating shared memory segment|posix_fallocate failed|"
        r"Call to \w+ failed|shm).*?(?P<path>/dev/shm/nccl-\S+)(?=.*(?:No space|"
        r"\(28\)|size|bytes))",
        "gn24:1:1 [3] misc/shmutils.cc:72 NCCL WARN Error: failed to extend "
        "/dev/shm/nccl-xY3kQ9 to 33030532 bytes, error: No space left on device (28)",
        "SHM_FULL",
    ),
    Row(
        "nccl_fds",
        ("Too many open files",),
        r"NCCL WARN .*Too many open files",
        "n1:1:1 [0] misc/socket.cc:512 NCCL WARN socketInit: Call to socket failed : "
        "Too many open files",
        "FD_LIMIT",
    ),
    Row(
        "ib_completion",
        ("Got completion ",),
        r"Got completion (?:from peer (?P<peer>[^<\s]+)<(?P<port>\d+)> )?with "
        r"(?:status=|error )(?P<status>\d+)(?:.*?vendor err "
        r"(?P<vendor>\d+))?(?:.*?hca (?P<hca>\w+))?",
        "gn36:1:1 [2] transport/net_ib.cc:2301 NCCL WARN NET/IB: Got completion from "
        "peer 10.9.0.41<44112> with status=12 opcode=0 len=0 vendor err 129 (Recv) "
        "localGid fe80::1 hca mlx5_2",
        "NET_IB",
    ),
    Row(  # aws-ofi-nccl: libfabric's completion queue
        "ofi_completion",
        ("NET/OFI Request",),
        r"NET/OFI Request .*completed with error.*?Error: (?P<status>\d+) \((?P<why>"
        r"[^)]*)\)",
        "n1:1:1 [2] NCCL WARN NET/OFI Request 0x7f01 completed with error. RC: 113. "
        "Error: 4126 (Unresponsive receiver: Connectivity not established ) .",
        "NET_IB",
    ),
    Row(
        "ib_event",
        ("Got async ", "async fatal event", "IBV_EVENT"),
        r"NET/IB ?: (?P<hca>\w+:?\d*:?) ?(?:Got async(?:hronous)? ?\w* event|async "
        r"fatal event)[ :]*(?P<event>.*)",
        "n1:1:1 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_3:1 Got async "
        "event : port error",
        "NET_IB",
    ),
    Row(
        "ib_call",
        ("ibv_", "GID table changed", "UCX  ERROR", "Transport retry count exceeded"),
        r"Call to ibv_\w+ failed(?: with error (?P<why>.*))?|ibv_\w+\(? ?failed|GID "
        r"table changed|(?P<hca>mlx5_\d+):\d+/(?:IB|RoCE)|Transport retry count "
        r"exceeded(?: on (?P<hca2>mlx5_\d+))?",
        "n1:1:1 [0] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_modify_qp failed with "
        "error Connection timed out",
        "NET_IB",
    ),
    Row(
        "nccl_socket",
        (
            "NCCL WARN Net ",
            "NCCL WARN [Proxy",
            "NCCL WARN socket",
            "NCCL WARN NET/Socket",
            "NCCL WARN Call to ",
            "NCCL WARN Bootstrap",
            "NCCL WARN bootstrap",
            "NCCL WARN [Service",
            "NCCL WARN Connect to ",
            "NCCL WARN Accept ",
        ),
        r"NCCL WARN (?:\[[^\]]*\] )?(?:.*?(?:[Cc]onnection closed by (?:remote peer "
        r")?(?P<peer>[\w.-]+)(?:<(?P<port>\d+)>)?|\b[Cc]onnect to "
        r"(?P<peer2>[\w.:-]+?)(?:<\d+>|:\d+)? failed|(?:recv|send|sendmsg) (?:from|"
        r"to) (?P<peer3>[\w.:-]+?)(?:<\d+>)? failed)|.*(?:no socket interface|"
        r"Connection reset|Broken pipe|Connection refused|Connection timed out|timed "
        r"out|No route to host|Network is unreachable))",
        "gn20:1:2 [0] socket.cc:565 NCCL WARN Net : Connection closed by remote peer "
        "gn22<51004>",
        "NET_SOCKET",
    ),
    Row(
        "nccl_magic",
        ("wrong magic", "mismatching nonce", "wrong type"),
        r"(?:wrong magic|mismatching nonce)",
        "n1:1:1 [0] misc/socket.cc:701 NCCL WARN socketFinalizeAccept: wrong magic "
        "4d2 != 929",
        "STALE_INCARNATION",
    ),
    Row(
        "store_wait",
        ("store->get(",),
        r"\[(?P<rank>\d+)\] is setting up NCCL communicator and retriev\w+ "
        r"ncclUniqueId from \[(?P<from>\d+)\].*?(?:wait timeout after "
        r"(?P<timeout>\d+)ms|(?P<why>[A-Z][\w ]+(?:timeout|Timeout|reset|refused|peer|"
        r"Broken pipe)?))",
        "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and "
        "retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but "
        "store->get('0') got error: wait timeout after 1800000ms, keys: /0",
    ),
    Row(
        "nccl_remote",
        ("ncclRemoteError", "remote process exited or there was a network error"),
        r"ncclRemoteError|remote process exited or there was a network error",
        "NCCL error: remote process exited or there was a network error, NCCL version "
        "2.26.2",
        "NET_SOCKET",
    ),
    Row(
        "nccl_system",
        ("ncclSystemError", "unhandled system error"),
        r"ncclSystemError|unhandled system error",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call "
        "failed or device error.",
        "NCCL_INTERNAL",
    ),
    Row(
        "nccl_internal",
        ("ncclInternalError", "internal error - please report", "NCCL WARN Internal"),
        r"ncclInternalError|(?<!x)internal error - please report|Internal check failed",
        "ncclInternalError: Internal check failed.",
        "NCCL_INTERNAL",
    ),
    Row(
        "nccl_usage",
        ("ncclInvalidUsage", "ncclInvalidArgument", "invalid usage (run with"),
        r"ncclInvalid(?:Usage|Argument)|invalid usage \(run with",
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
        "NCCL_INTERNAL",
    ),
    Row(
        "nccl_unhandled_cuda",
        ("ncclUnhandledCudaError", "unhandled cuda error"),
        r"ncclUnhandledCudaError|unhandled cuda error",
        "ncclUnhandledCudaError: Call to CUDA function failed.",
        "NCCL_INTERNAL",
    ),
    Row(
        "nccl_teardown",
        (
            "To avoid data inconsistency",
            "Some NCCL operations have failed",
            "dump signal",
            "global timeout signal",
            "ncclCommAbort",
        ),
        r"To avoid data inconsistency|Some NCCL operations have failed|dump signal|"
        r"global timeout signal|ncclCommAbort",
        "[Rank 4] To avoid data inconsistency, we are taking the entire process down.",
    ),
)

#: After the GPU's rows: a CUDA failure may say more than that NCCL met it.
NCCL_REST = (
    Row(
        "nccl_cuda",
        ("NCCL WARN Cuda failure",),
        r"NCCL WARN Cuda failure (?P<number>\d+)? ?'(?P<why>[^']*)'",
        "gn77:1:1 [1] include/alloc.h:125 NCCL WARN Cuda failure 1 'invalid argument'",
    ),
    Row(
        "nccl_warn",
        ("NCCL WARN",),
        r"NCCL WARN (?P<why>.*)",
        "gn24:1:1 [3] transport/p2p.cc:213 NCCL WARN Could not enable P2P between dev",
    ),
)
