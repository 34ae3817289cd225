"""Lines of the kernel and of a process that dies: memory, signals, links."""

from gangstart.triage.table.row import Row

SYSTEM = (
    Row(
        "dataloader_killed",
        ("DataLoader worker",),
        r"DataLoader worker \(pid(?:\(s\))? (?P<pid>[\d, ]+)\) (?:is killed by "
        r"signal: (?P<signal>[\w ]+?)\.|exited unexpectedly)(?P<hint>.*)",
        "RuntimeError: DataLoader worker (pid 771204) is killed by signal: Killed. ",
    ),
    Row(
        "oom_kill",
        ("oom-kill:",),
        r"oom-kill:constraint=(?P<constraint>\w+),.*?(?:oom_memcg=(?P<memcg>[^,]*),)?"
        r"(?:task_memcg=(?P<cgroup>[^,]*),)?task=(?P<task>[^,]*),pid=(?P<pid>\d+)",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask="
        "(null),cpuset=t,mems_allowed=0,oom_memcg=/system.slice/job_4803,task_memcg=/s"
        "ystem.slice/job_4803/step_0,task=python,pid=771204,uid=1001",
        "HOST_OOM",
    ),
    Row(
        "oom_killed",
        ("ut of memory: Kill",),
        r"(?P<memcg>Memory cgroup o|O)ut of memory: Kill(?:ed)? process (?P<pid>\d+) "
        r"\((?P<task>[^)]*)\).*?(?:anon-rss:(?P<rss>\d+)kB)?",
        "Memory cgroup out of memory: Killed process 771204 (pt_data_worker) "
        "total-vm:61220112kB, anon-rss:30110240kB",
        "HOST_OOM",
    ),
    Row(
        "host_alloc",
        (
            "DefaultCPUAllocator",
            "Cannot allocate memory",
            "std::bad_alloc",
            "MemoryError",
            "Errno 12]",
            "running low on memory",
        ),
        r"DefaultCPUAllocator: (?:can't|not enough memory)|Errno 12\]|std::bad_alloc|"
        r"^(?:[\w.]+\.)?_?(?:Array)?MemoryError|fork.*Cannot allocate memory|"
        r"OutOfMemoryError: Task was killed due to the node running low on memory",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:114] . DefaultCPUAllocator: "
        "can't allocate memory: you tried to allocate 8589934592 bytes.",
        "HOST_OOM",
    ),
    Row(
        "segfault",
        (
            "Fatal Python error: ",
            "Segmentation fault",
            "segfault at",
            "Caught signal 11",
            "SIGSEGV",
            "SIGBUS",
            "SIGILL",
            "Signal: Bus error",
            "Bus error",
            "Illegal instruction",
            "trap invalid opcode",
        ),
        r"Fatal Python error: (?P<signal>Segmentation fault|Bus error|Illegal "
        r"instruction)|(?P<task>\S+)\[(?P<pid>\d+)\]: segfault at|Caught signal (?:11|"
        r"7|4)\b|Signal: (?P<signal2>Segmentation fault|Bus error|Illegal "
        r"instruction)|(?P<signal3>SIGSEGV|SIGBUS|SIGILL)|[Ss]egmentation fault|Bus "
        r"error|Illegal instruction|(?P<task2>\S+)\[(?P<pid2>\d+)\] trap invalid "
        r"opcode",
        "python[51730]: segfault at 0 ip 00007f sp 00007f error 4 in libfoo.so[7f+1]",
        "SEGFAULT",
    ),
    Row(
        "ib_link",
        (
            "Port 1 link down",
            "link down",
            "Link down",
            "port_state",
            "NIC Link is Down",
            "health compromised",
            "mlx5_core",
        ),
        r"(?P<hca>mlx5_\d+|ib\d+|\w+): (?:Port \d+ )?(?:[Ll]ink (?:is )?[Dd]own|link "
        r"down)|mlx5_core (?P<pci>\S+):? .*(?:[Ll]ink down|health compromised|"
        r"device's health|Port module event.*(?:unplug|error)|synd|timeout)",
        "mlx5_core 0000:86:00.0 ens3: Link down",
        "NET_IB",
    ),
    Row(
        "hung_task",
        ("blocked for more than",),
        r"task (?P<task>[^:]+):(?P<pid>\d+) blocked for more than (?P<after>\d+) "
        r"seconds",
        "INFO: task python:88123 blocked for more than 120 seconds.",
    ),
    Row(
        "machine_check",
        ("Hardware Error", "Machine check", "EDAC ", "mce: "),
        r"\[Hardware Error\]|Machine check events logged|EDAC .*UE|Uncorrected error",
        "mce: [Hardware Error]: Machine check events logged",
    ),
    Row(
        "cpp_exception",
        ("terminate called", "what():"),
        r"terminate called after throwing an instance of '(?P<exc>[^']*)'|what\(\): "
        r"+(?P<why>.*)",
        "terminate called after throwing an instance of 'c10::Error'",
    ),
    Row(
        "signal_notice",
        ("SIGTERM", "SIGUSR", "SIGINT", "SIGHUP", "got signal", "received signal"),
        r"(?i)(?:got|received|caught|handl\w+|by|on)\W{1,3}(?:the )?(?:pre-?emption "
        r")?(?:signal )?(?P<signal>SIG(?:TERM|USR1|USR2|INT|HUP|CONT))|"
        r"(?P<signal2>SIG(?:TERM|USR1|USR2|INT|HUP)) (?:received|caught)|(?:got|"
        r"received) signal (?P<number>\d+)",
        "INFO | got SIGUSR2, writing checkpoint",
    ),
)
