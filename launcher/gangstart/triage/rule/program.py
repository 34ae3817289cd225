"""What the program did: exceptions, signals, exit codes, what one node lacks."""

from __future__ import annotations

import re

from gangstart.triage.cause import END, LAST, MACHINE, PROGRAM, Cause, Facts
from gangstart.triage.model import Confidence, Event

#: Exceptions that only say that somebody else failed or that Slurm sent a signal.
DERIVED = re.compile(
    r"DistBackendError|DistNetworkError|DistStoreError|NCCL|ncclComm|ChildFailedError"
    r"|SignalException|ProcessExitedException|ProcessRaisedException|KeyboardInterrupt"
    r"|communicator was aborted|[Cc]onnection (?:was )?(?:reset|closed|refused|aborted)"
    r"|ConnectionResetError|ConnectionRefusedError|ConnectionAbortedError"
    r"|BrokenPipeError|Broken pipe|HorovodInternalError|[Gg]loo|RayActorError"
    r"|WorkerCrashedError|ActorDiedError|CalledProcessError|SystemExit"
    r"|killed by signal: (?:Term|User|Hang|Inter|Cont)|[Ss]ocket [Tt]imeout"
    r"|process group|SIGTERM|SIGUSR|[Pp]reempt|RendezvousClosed|JobPreempted"
    r"|peer(?:s)? (?:is|are|has|have) (?:gone|dead|lost|died)"
)
#: Exceptions of libraries that have nothing to do with how ranks talk to each other:
#: a database or a web service that refuses is the program's own matter.
FOREIGN = re.compile(
    r"(?!torch|c10|horovod|ray|deepspeed|accelerate|lightning|pytorch_lightning|"
    r"multiprocessing|concurrent|subprocess|jaxlib|xla|mpi4py|megatron|builtins)"
    r"[a-z]\w*\."
)
AGAIN = re.compile(r"Caught (\w+) in (?:DataLoader worker|replica|pin memory thread)")
SIGNALS = {
    "Segmentation fault": "SIGSEGV",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
}
CRASHES = {"SIGSEGV", "SIGBUS", "SIGILL", *SIGNALS}
CRASH_SIGNALS = {11, 7, 4}
CRASH_EXITS = {139: "SIGSEGV", 135: "SIGBUS", 132: "SIGILL"}
#: Exit codes that a launcher makes out of a signal that ended the others.
SIGNALLED = 126  # shells use the codes from here on for what they could not run
TEARDOWN_EXITS = {143, 137, 130, 129}


def is_derived(event: Event) -> bool:
    """Whether an exception only passes on what happened elsewhere."""
    if event.kind == "dataloader_killed":
        signal = event.fields.get("signal", "").strip()
        return signal.startswith(("Term", "User", "Hang", "Inter"))
    if FOREIGN.match(event.fields.get("exc", "")):
        return False
    return DERIVED.search(event.text) is not None


def _one_node(facts: Facts, events: list[Event]) -> str | None:
    """The node, if every rank of exactly one of several nodes failed the same way."""
    nodes = {e.node for e in events}
    if len(nodes) != 1 or len(facts.nodes) <= 1:
        return None
    node = next(iter(nodes))
    ranks = set(facts.ranks_of(node))
    seen = {e.rank for e in events if e.rank is not None}
    seen |= {rank for e in events for rank in e.ranks}
    whole = bool(ranks) and ranks <= seen
    return node if node and (whole or (not ranks and len(events) > 1)) else None


def node_software(facts: Facts) -> list[Cause]:
    """A library, package, program or mount that one node lacks."""
    made = []
    shared = facts.of("shared_library", "exec_failed")
    lacking = facts.of("module_missing", "command_missing")
    lacking += [
        e for e in facts.of("exception") if "No such file or directory" in e.text
    ]
    lacking += [e for e in facts.of("exception") if "Permission denied" in e.text]
    for events, alone in ((shared, True), (lacking, False)):
        cause = _lacking(facts, events, alone=alone)
        if cause:
            made.append(cause)
    return made


def _lacking(facts: Facts, events: list[Event], *, alone: bool) -> Cause | None:
    if not events:
        return None
    first = events[0]
    nodes = {e.node for e in events if e.node}
    many = len(facts.nodes) > 1
    node = _one_node(facts, events)
    if node is None and alone and not (many and nodes >= set(facts.nodes)):
        node = nodes.pop() if len(nodes) == 1 else None
    elif node is None:
        return None
    here = f" on {node} only" if many and node else ""
    _, rank = facts.where(events)
    return Cause(
        "NODE_SOFTWARE",
        MACHINE,
        events,
        node,
        rank,
        confidence=Confidence.PROVEN if many and node else Confidence.LIKELY,
        what=f"something that the program needs is missing{here}: {first.text[:200]}",
    )


def exceptions(facts: Facts) -> list[Cause]:
    """Exceptions that the program itself raised."""
    kinds = (
        "exception",
        "module_missing",
        "shared_library",
        "device_assert",
        "launch_failure",
        "cuda_error",
        "command_missing",
        "name_unknown",
    )
    made: dict[object, Cause] = {}
    events = facts.of(*kinds)
    for event in events:
        if _raised_again(event, events):
            continue
        if is_derived(event) or event.fields.get("exc") in {"Warning", "SystemExit"}:
            continue
        if not _counts(event):
            continue
        key = (event.kind == "device_assert" or event.fields.get("exc"), event.rank)
        if key in made:
            made[key].events.append(event)
            continue
        made[key] = _exception(facts, event)
    return _gather_alike(facts, list(made.values()))


def _raised_again(event: Event, events: list[Event]) -> bool:
    """Whether torch raised a worker's exception again: the original follows.

    torch._utils.ExceptionWrapper: "Caught NAME in DataLoader worker process 3."
    """
    found = AGAIN.match(event.fields.get("why", ""))
    return found is not None and any(
        other.rank == event.rank
        and other.order > event.order
        and other.fields.get("exc", "").endswith(found[1])
        for other in events
    )


def _counts(event: Event) -> bool:
    """Whether a line that other rules may take is an exception of the program."""
    if event.kind == "command_missing":
        return bool(event.fields.get("path2"))
    if event.kind == "name_unknown":
        return FOREIGN.match(event.fields.get("exc", "")) is not None
    return True


def _exception(facts: Facts, event: Event) -> Cause:
    where = ""
    if "file" in event.fields and "line" in event.fields:
        where = f" at {event.fields['file']}:{event.fields['line']}"
    what = f"the program raised {event.text[:300]}{where}"
    if event.kind == "device_assert":
        what = (
            "a device-side assert failed: an index is out of range in the program "
            f"(vocabulary, labels), no fault of the GPU: {event.text[:200]}"
        )
    cause = Cause(
        "APP_EXCEPTION",
        PROGRAM,
        [event],
        event.node,
        event.rank,
        confidence=Confidence.PROVEN if where else Confidence.LIKELY,
        what=what,
    )
    if facts.survived(event):
        cause.noise = "the program went on after it"
    return cause


def _gather_alike(facts: Facts, causes: list[Cause]) -> list[Cause]:
    """One cause out of ranks that raised the same: no rank is to blame alone."""
    first: dict[str, Cause] = {}
    made = []
    for cause in causes:
        if not cause.events:
            continue
        event = cause.events[0]
        key = f"{event.fields.get('exc')}:{event.fields.get('why', '')[:80]}"
        known = first.get(key)
        if known is None or event.rank is None:
            first.setdefault(key, cause)
            made.append(cause)
            continue
        known.events += cause.events
    for cause in made:
        ranks = {e.rank for e in cause.events if e.rank is not None}
        if len(ranks) > 1 and len(ranks) >= max(2, len(facts.world) // 2):
            nodes = {e.node for e in cause.events}
            cause.rank = None
            cause.node = nodes.pop() if len(nodes) == 1 else None
    return made


def asserts_unnamed(facts: Facts) -> list[Cause]:
    """Device-side asserts carry no rank; the rank that stumbled over one is named."""
    events = facts.of("device_assert")
    stumbled = [e for e in events if e.rank is not None]
    stumbled += [e for e in facts.of("nccl_cuda") if "assert" in e.text and e.rank]
    if not events or not stumbled or events[0].rank is not None:
        return []
    cause = _exception(facts, events[0])
    cause.rank, cause.node = stumbled[0].rank, stumbled[0].node
    cause.events = events + stumbled
    return [cause]


def illegal_access(facts: Facts) -> list[Cause]:
    """A kernel of the program touched memory that is not its own."""
    events = [e for e in facts.of("illegal_access") if not facts.survived(e)]
    if not events:
        return []
    own = [e for e in events if "watchdog" not in e.text] or events
    node, rank = facts.where(own)
    return [
        Cause(
            "APP_ILLEGAL_ACCESS",
            PROGRAM,
            events,
            node or own[0].node,
            rank if rank is not None else own[0].rank,
            what="a kernel of the program touched memory that is not its own (illegal "
            "address): run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer",
        )
    ]


def crashes(facts: Facts) -> list[Cause]:
    """SIGSEGV, SIGBUS, SIGILL."""
    events = facts.of("segfault")
    events += [e for e in facts.of("task_signal") if _crash(e)]
    events += [e for e in facts.of("mpirun_signal", "elastic_root") if _crash(e)]
    events += [
        e
        for e in facts.of("task_exit", "elastic_failed", "mpi_bad_exit")
        if (e.number("exit") or 0) in {*CRASH_EXITS, -11, -7, -4}
    ]
    events += [
        e
        for e in facts.of("dataloader_killed")
        if "Segmentation" in e.fields.get("signal", "")
    ]
    if not events:
        return _crash_accounted(facts)
    events.sort(key=lambda e: e.order)
    named = [e for e in events if e.rank is not None or len(e.ranks) == 1] or events
    node, rank = facts.where(named)
    if node is None and rank is None:
        node, rank = facts.where(facts.of("mpirun_ended"))
    if node is None:
        node, _ = facts.where(facts.of("mpi_bad_exit"))
    return [
        Cause(
            "SEGFAULT",
            PROGRAM,
            events,
            node or named[0].node,
            rank if rank is not None else named[0].rank,
            confidence=Confidence.PROVEN,
            what="a rank died of a segmentation fault or the like",
        )
    ]


def _crash_accounted(facts: Facts) -> list[Cause]:
    """No line tells of a crash, but Slurm recorded the signal of one."""
    attempt = facts.attempt
    if attempt is None:
        return []
    signals = {attempt.signal, attempt.derived_signal}
    signals |= {step.signal for step in attempt.steps if step.name != "extern"}
    codes = {attempt.exit_code, attempt.derived_exit_code}
    if not signals & CRASH_SIGNALS and not codes & set(CRASH_EXITS):
        return []
    what = "a process died of a segmentation fault or the like, says Slurm's accounting"
    told = facts.of("mpirun_ended")
    node, rank = facts.where(told)
    node = node or (facts.nodes[0] if len(facts.nodes) == 1 else None)
    return [Cause("SEGFAULT", PROGRAM, told, node, rank, what=what)]


def _crash(event: Event) -> bool:
    named = event.fields.get("signal", "")
    return named in CRASHES or event.number("number") in CRASH_SIGNALS


def exits(facts: Facts) -> list[Cause]:
    """A rank ended itself with a code and gave no exception."""
    events = facts.of("task_exit", "mpi_abort", "elastic_failed", "elastic_root")
    end = min((e.order for e in facts.of("srun_ends")), default=None)
    first = [
        e
        for e in events
        if (e.number("exit") or e.number("exit2") or 1) not in TEARDOWN_EXITS
        and (e.number("exit") or 1) > 0
        and (end is None or e.order <= end or e.kind != "task_exit")
    ]
    if not first:
        return _exit_unseen(facts)
    event = first[0]
    rank = event.rank
    said = [
        e
        for e in facts.of("app_error")
        if (rank is None or e.rank in {None, rank}) and not is_derived(e)
    ]
    code = event.fields.get("exit") or event.fields.get("exit2") or "?"
    who = "the program"
    what = f"{who} ended itself with exit code {code}"
    if said:
        what += f", saying: {said[-1].text[:200]}"
    return [
        Cause(
            "APP_EXIT",
            END,
            [event, *said[-1:]],
            event.node,
            rank,
            confidence=Confidence.LIKELY
            if said or code != "1"
            else Confidence.POSSIBLE,
            what=what,
        )
    ]


def _exit_unseen(facts: Facts) -> list[Cause]:
    """Only Slurm knows of an exit code; the program may have said something before.

    Code 1 alone is what everything ends with: it says nothing.
    """
    attempt = facts.attempt
    said = [e for e in facts.of("app_error") if not is_derived(e)]
    said = [e for e in said if not facts.survived(e)]
    code = (attempt.derived_exit_code or attempt.exit_code) if attempt else 0
    if attempt is None or attempt.state != "FAILED" or not code:
        return []
    if not said:
        if code == 1 or code >= SIGNALLED:
            return []
        what = f"the program ended with exit code {code}; no line says why"
        return [Cause("APP_EXIT", LAST, confidence=Confidence.POSSIBLE, what=what)]
    event = said[-1]
    return [
        Cause(
            "APP_EXIT",
            END,
            [event],
            event.node,
            event.rank,
            confidence=Confidence.POSSIBLE,
            what=f"the program ended with exit code {code}, saying: {event.text[:200]}",
        )
    ]


RULES = (
    node_software,
    asserts_unnamed,
    exceptions,
    illegal_access,
    crashes,
    exits,
)
