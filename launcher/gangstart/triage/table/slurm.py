"""Lines of srun, slurmstepd, slurmd and slurmctld (Slurm 20 to 26)."""

from gangstart.triage.table.row import Row

WHO = r"(?:srun: error: )?(?P<node>[\w.-]+): tasks? (?P<ranks>[\d,-]+): "

SLURM = (
    Row(
        "task_oom",
        (": Out Of Memory",),
        WHO + r"Out Of Memory",
        "srun: error: gn07: task 6: Out Of Memory",
    ),
    Row(
        "task_exit",
        ("Exited with exit code",),
        WHO + r"Exited with exit code (?P<exit>\d+)",
        "srun: error: gn86: task 3: Exited with exit code 42",
    ),
    Row(
        "task_signal",
        (
            ": Segmentation fault",
            ": Bus error",
            ": Illegal instruction",
            ": Aborted",
            ": Killed",
            ": Terminated",
            ": Floating point exception",
            ": User defined signal",
            ": Hangup",
            ": Interrupt",
            ": Trace/breakpoint trap",
            ": CPU time limit",
            ": File size limit",
        ),
        WHO + r"(?P<signal>Segmentation fault|Bus error|Illegal instruction|Aborted"
        r"|Killed|Terminated|Floating point exception|User defined signal \d|Hangup|"
        r"Interrupt|Trace/breakpoint trap|CPU time limit exceeded|File size limit "
        r"exceeded)(?: \(core dumped\))?",
        "srun: error: gn01: tasks 0-2: Segmentation fault (core dumped)",
    ),
    Row(
        "slurm_end",
        (" DUE TO ",),
        r"\*\*\* (?P<what>JOB|STEP) (?P<id>\S+) (?:STEPD TERMINATED )?ON "
        r"(?P<node>\S+) (?:CANCELLED )?AT (?P<at>\S+) DUE TO (?P<reason>.*?),? "
        r"?(?:SEE SLURMCTLD LOG FOR DETAILS )?\*\*\*",
        "slurmstepd: error: *** STEP 4809.0 ON gn20 CANCELLED AT 2026-03-14T02:18:44 "
        "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
    ),
    Row(
        "slurm_cancelled",
        (" CANCELLED AT ",),
        r"\*\*\* (?P<what>JOB|STEP) (?P<id>\S+) ON (?P<node>\S+) CANCELLED AT "
        r"(?P<at>\S+) \*\*\*",
        "slurmstepd: error: *** STEP 4815.0 ON gn29 CANCELLED AT 2026-03-14T02:00:55 "
        "***",
    ),
    Row(
        "node_failure",
        ("Node failure on ",),
        r"Node failure on (?P<node>[\w.\[\],-]+)",
        "srun: error: Node failure on gn22",
    ),
    Row(
        "node_not_responding",
        ("not responding", "Not responding"),
        r"(?:error: )?Nodes? (?P<node>[\w.\[\],-]+) not responding|nodes "
        r"(?P<node2>[\w.\[\],-]+) not responding, setting DOWN",
        "[2026-03-14T02:18:40.001] error: Nodes gn22 not responding",
    ),
    Row(
        "first_exit",
        ("First task exited ",),
        r"First task exited (?P<after>\d+)s ago",
        "srun: First task exited 30s ago",
    ),
    Row(
        "task_state",
        (": exited", ": running", ": unknown"),
        r"srun: (?:StepId=\S+ )?tasks? (?P<ranks>[\d,-]+): (?P<state>exited "
        r"abnormally|exited|running|unknown)",
        "srun: StepId=4833.0 task 7: exited",
    ),
    Row(
        "credential",
        (
            "credential expired",
            "Expired credential",
            "Rewound credential",
            "ENCODED: ",
            "credential revoked",
        ),
        r"(?:Task launch for (?:StepId=)?\S+ failed on node (?P<node>\S+): )?(?:Job "
        r"credential (?:expired|revoked)|.*(?:Expired|Rewound) credential|ENCODED: "
        r"(?P<encoded>.*))",
        "srun: error: Task launch for StepId=36.0 failed on node cn131: Job "
        "credential expired",
        "CRED_EXPIRED",
    ),
    Row(
        "prolog_failed",
        ("rolog",),
        r"(?i)(?:prolog (?:launch failure|failed|error|hung)|prolog for JobId=\S+ on "
        r"(?P<node>\S+) failed|launch_prolog.*(?:failed|exited)|prolog .*(?:exit "
        r"status|returned|failed with) \D*[1-9]|failed on node (?P<node2>\S+): "
        r".*prolog)",
        "[2026-03-14T02:00:12.020] error: Prolog for JobId=4835 on gn66 failed with "
        "status 1",
        "PROLOG_FAIL",
    ),
    Row(
        "launch_failed",
        ("Task launch for ", "launch failed"),
        r"(?:Task launch for (?:StepId=)?\S+ failed on node (?P<node>\S+): "
        r"(?P<why>.*)|task (?P<rank>\d+) launch failed: (?P<why2>.*)|Application "
        r"launch failed: (?P<why3>.*))",
        "srun: error: Task launch for StepId=13.0 failed on node adas2: Socket timed "
        "out on send/recv operation",
        "LAUNCH_FAILED",
    ),
    Row(
        "step_refused",
        ("Unable to create step", "Unable to confirm allocation", "Unable to allocate"),
        r"Unable to (?:create step for job|confirm allocation for job|allocate "
        r"resources)[^:]*: (?P<why>.*)",
        "srun: error: Unable to create step for job 10: Error generating job "
        "credential",
        "LAUNCH_FAILED",
    ),
    Row(
        "exec_failed",
        ("execve()",),
        r"execve\(\): (?P<path>.*): (?P<why>[A-Z][\w ()/-]+)$",
        "slurmstepd: error: execve(): python3: No such file or directory",
        "NODE_SOFTWARE",
    ),
    Row(
        "chdir_failed",
        ("couldn't chdir to",),
        r"couldn't chdir to `(?P<path>[^']*)': (?P<why>[^:]*)",
        "slurmstepd: error: couldn't chdir to `/proj/run': No such file or directory: "
        "going to /tmp instead",
    ),
    Row(
        "oom_events",
        ("oom_kill event", "oom-kill event", "cgroup out-of-memory handler"),
        r"Detected (?P<count>\d+) oom[_-]kill event(?:s|\(s\))? in (?:StepId=|step "
        r")(?P<step>\S+?)\.? |cgroup out-of-memory handler",
        "slurmstepd: error: Detected 3 oom_kill events in StepId=4803.0. Some of the "
        "step tasks have been OOM Killed.",
        "HOST_OOM",
    ),
    Row(
        "memory_limit",
        ("memory limit", "being killed"),
        r"(?:[Ee]xceeded (?:job|step|virtual)? ?memory limit|StepId?[ =]\S+ exceeded "
        r"memory limit \((?P<used>\d+) > (?P<limit>\d+)\))",
        "slurmstepd: error: Step 123.0 exceeded memory limit (65123 > 64000), being "
        "killed",
        "HOST_OOM",
    ),
    Row(
        "unkillable",
        ("Kill task failed", "unkillable", "processes not going away"),
        r"[Kk]ill task failed|unkillable|processes not going away",
        "[2026-03-14T05:02:10.100] error: *** EXTERN STEP FOR 99 STEPD: Kill task "
        "failed",
        "KILL_TASK_FAILED",
    ),
    Row(
        "srun_interrupted",
        ("srun: interrupt (", "srun: sending Ctrl-C", "srun: forcing job term"),
        r"srun: (?:interrupt \(|sending Ctrl-C|forcing job termination)",
        "srun: sending Ctrl-C to StepId=4815.0",
    ),
    Row(
        "srun_ends",
        ("Terminating StepId", "Terminating job step", "Job step aborted", "Force Ter"),
        r"srun: (?:Terminating (?:StepId|job step)|Job step aborted|Force Terminated)",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    ),
    Row(
        "requeued",
        ("SLURM_RESTART_COUNT", "has been requeued", "Requeue"),
        r"^\W*(?:export )?SLURM_RESTART_COUNT ?[=:] ?(?P<restart>\d+)|has been "
        r"requeued",
        "--- SLURM_RESTART_COUNT=1 ---",
    ),
    Row(
        "gres_count",
        ("gres/gpu count",),
        r"(?:[Nn]ode (?P<node>[\w.-]+) .*)?gres/gpu count (?:reported lower than "
        r"configured|too low) ?\((?P<found>\d+) < (?P<wanted>\d+)\)",
        "gres/gpu count reported lower than configured (7 < 8)",
        "GPU_COUNT",
    ),
    Row(
        "ctld_kill",
        ("_slurm_rpc_kill_job", "REQUEST_KILL_JOB"),
        r"(?:_slurm_rpc_kill_job|REQUEST_KILL_JOB).*?JobId=(?P<job>\S+) uid "
        r"(?P<uid>\d+)",
        "[2026-03-14T02:09:11.120] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=4851 "
        "uid 1001",
    ),
)
