"""From facts to a verdict: every rule, the order of causes, what to say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangstart.triage.cause import END, Cause, Facts
from gangstart.triage.codes import CODES, NODELESS, PROGRAM, UNPLACED
from gangstart.triage.model import (
    Command,
    Confidence,
    Consequence,
    Evidence,
    Moment,
    Place,
    RuledOut,
    Verdict,
)
from gangstart.triage.past import offenders
from gangstart.triage.relate import root_of
from gangstart.triage.rule import (
    checks,
    device,
    hardware,
    meeting,
    network,
    program,
    resource,
    scheduler,
    signals,
    wire,
)
from gangstart.triage.suspect import pictured
from gangstart.triage.unknown import missing, ruled_checks, ruled_memory, ruled_series
from gangstart.triage.untimed import weigh

if TYPE_CHECKING:
    from gangstart.triage.model import Event

RULES = (
    *hardware.RULES,
    *checks.RULES,
    *signals.RULES,
    *device.RULES,
    *resource.RULES,
    *program.RULES,
    *network.RULES,
    *wire.RULES,
    *meeting.RULES,
    *scheduler.RULES,
)
EVIDENCE = 6
#: Where nobody is named although somebody was waited for, history may name a suspect.
UNNAMED = {
    "UNKNOWN",
    "NCCL_TIMEOUT",
    "NCCL_FIRST_COLLECTIVE",
    "BARRIER_TIMEOUT",
    "RENDEZVOUS_TIMEOUT",
    "NET_IB",
    "NET_SOCKET",
}
BESIDE = 3  # of what checks found on the same node
WASTED_S = 600.0  # less is what teardown takes
FINE = {"COMPLETED", "RUNNING", "PENDING", "COMPLETING", ""}
WENT_ON = "the program went on after it"
#: Ends of a task: it did not come through.
FATAL = (
    *("task_exit", "task_signal", "mpirun_signal", "elastic_root", "slurm_end"),
    "shell_killed",
)
#: What stays wrong however far the program comes.
LASTING = {"THERMAL_STRAGGLER", "HOST_OOM"}
#: Causes that a job which completed can still have.
SLOW = {"THERMAL_STRAGGLER", "KILL_TASK_FAILED"}
EARLIER = {
    "NODE_FAIL": "NODE_FAIL",
    "PREEMPTED": "PREEMPTED",
    "TIMEOUT": "TIME_LIMIT",
    "OUT_OF_MEMORY": "HOST_OOM",
    "BOOT_FAIL": "NODE_FAIL",
}


def judge(facts: Facts) -> Verdict:
    """The verdict on a job."""
    causes = [cause for rule in RULES for cause in rule(facts)]
    for cause in causes:
        weigh(facts, cause, causes)
        if cause.events and cause.code not in LASTING:
            survived = all(facts.survived(e) for e in cause.events)
            cause.noise = cause.noise or (survived and WENT_ON) or ""
    root = _fine(facts, causes) or _through(facts, causes)
    root = root or root_of(facts, causes) or _nothing(facts)
    verdict = _verdict(facts, root)
    _consequences(facts, verdict, root, causes)
    _ruled_out(facts, verdict, root, causes)
    _next(facts, verdict, root)
    verdict.timeline = timeline(facts, root, causes)
    verdict.series = pictured(facts.trace.series, verdict)
    verdict.sources = list(facts.trace.sources)
    verdict.job = facts.trace.job
    return verdict


def _fine(facts: Facts, causes: list[Cause]) -> Cause | None:
    """NO_FAILURE when Slurm saw every step end well, whatever was printed."""
    attempt = facts.attempt
    if facts.state != "COMPLETED" or attempt is None:
        return None
    bad = [
        step
        for step in attempt.steps
        if step.name != "extern" and step.state not in FINE
    ]
    if bad or attempt.exit_code or attempt.derived_exit_code:
        return None
    slow = [c for c in causes if c.code in SLOW and not c.noise]
    if slow:
        return slow[0]
    if any(e.fields.get("exit", "0") != "0" for e in facts.of("task_exit")):
        return None
    return Cause(
        "NO_FAILURE",
        END,
        facts.of("completed")[-1:],
        confidence=Confidence.PROVEN,
        what="nothing failed: the job and all its steps ended with exit code 0",
    )


def _through(facts: Facts, causes: list[Cause]) -> Cause | None:
    """NO_FAILURE when only the program is heard, and it completed after all it said.

    What is more than possible stays: what a program prints may come after its error.
    """
    done = facts.of("completed")[-1:]
    if facts.state not in {"", "COMPLETED"} or not done or facts.of(*FATAL):
        return None
    live = [cause for cause in causes if not cause.noise]
    said = [e for cause in live for e in cause.events]
    source, order = done[0].place.source, done[0].order
    if any(cause.confidence != Confidence.POSSIBLE for cause in live) or any(
        e.place.source != source or e.order > order for e in said
    ):
        return None
    return Cause(
        "NO_FAILURE",
        END,
        done,
        confidence=Confidence.POSSIBLE if said else Confidence.LIKELY,
        what="the program says that it completed, and no fault is seen after it",
    )


def _known(seen: list[Event]) -> str:
    ranks = sorted({rank for e in seen if e.kind == "absent_task" for rank in e.ranks})
    if ranks:
        return f"the others heard no more of rank {', '.join(map(str, ranks[:16]))}"
    return seen[0].text[:160]


def _nothing(facts: Facts) -> Cause:
    """What remains when no rule found a cause."""
    state = facts.state
    if state in {"RUNNING", "PENDING", "COMPLETING", "CONFIGURING"}:
        what = (
            f"the job has not ended (Slurm says {state}), and no fault is seen so far"
        )
        return Cause("NO_FAILURE", END, what=what, confidence=Confidence.POSSIBLE)
    seen = facts.of("absent_task") or facts.of(
        *("task_signal", "task_exit", "mpirun_signal", "elastic_root", "slurm_end"),
        "shell_killed",
    )
    what = "the cause is not in what was looked at"
    if seen:
        what += f"; known is only: {_known(seen)}"
    one = len(seen) == 1 and seen[0].kind != "slurm_end"  # told by whoever was ended
    node, rank = (seen[0].node, seen[0].rank) if one else (None, None)
    return Cause(
        "UNKNOWN", END, seen[:2], node, rank, confidence=Confidence.POSSIBLE, what=what
    )


def who(verdict_rank: int | None, node: str | None) -> str:
    """Whom it is about ("rank 3 on gn02"), as far as known."""
    parts = []
    if verdict_rank is not None:
        parts.append(f"rank {verdict_rank}")
    if node:
        parts.append(f"on {node}")
    return " ".join(parts)


def _verdict(facts: Facts, root: Cause) -> Verdict:
    node = root.node or facts.node_of(root.rank)
    named = who(root.rank, node)
    sentence = f"{root.code}: {root.what}"
    if named:
        sentence = f"{root.code} ({named}): {root.what}"
    completed = bool(facts.of("completed"))
    verdict = Verdict(
        root.code,
        sentence,
        root.confidence,
        node,
        root.rank,
        root.gpu,
        CODES[root.code].drains,
        evidence=evidence(root.events),
    )
    if root.code in {"NO_FAILURE", "UNKNOWN"}:
        ended = facts.state == "COMPLETED"
        verdict.training_completed = True if completed or ended else None
    else:
        verdict.training_completed = completed or (
            root.code == "THERMAL_STRAGGLER" and (facts.state == "COMPLETED")
        )
    verdict.evidence += beside(facts, root, node)
    for note in root.notes:
        verdict.evidence.append(Evidence(note, Place("triage"), quoted=False))
    if root.code == "UNKNOWN":
        verdict.missing = missing(facts)
    _slurm_evidence(facts, verdict)
    _standing(facts, verdict)
    return verdict


def _standing(facts: Facts, verdict: Verdict) -> None:
    """What earlier starts hold against the node; a suspect where none is named."""
    held = {n: told for n, told in facts.trace.standings.items() if n in facts.nodes}
    place = Place("gangstart history")
    for sentence in held.get(verdict.node or "", ())[:BESIDE]:
        text = f"{verdict.node} in earlier jobs: {sentence}"
        verdict.evidence.append(Evidence(text, place, node=verdict.node))
    if verdict.node or verdict.code not in UNNAMED or len(held) != 1:
        return
    ((node, told),) = held.items()
    text = f"a suspect, not proven: {node} in earlier jobs was {told[0]}"
    verdict.evidence.append(Evidence(text, place, node=node))
    why = f"{node} did badly in earlier jobs; that this job failed for it is not proven"
    verdict.next.append(Command(f"sbatch --exclude={node} …", why))


def evidence(events: list[Event]) -> list[Evidence]:
    """The lines to cite: each text once, from the first on."""
    made: dict[str, Evidence] = {}
    for event in events:
        made.setdefault(
            event.text[:80],
            Evidence(event.text, event.place, event.time, event.node, event.rank),
        )
    return list(made.values())[:EVIDENCE]


def beside(facts: Facts, root: Cause, node: str | None) -> list[Evidence]:
    """What checks of that node found, beside what the cause rests on already."""
    told = {event.text for event in root.events}
    seen = facts.of("check_drain", "check_change", "check_gpu", "check_other")
    seen += facts.of("check_left", "check_shm", "check_ended")
    found = [e for e in seen if node and e.node == node and e.text not in told]
    return evidence(found)[:BESIDE]


def _slurm_evidence(facts: Facts, verdict: Verdict) -> None:
    attempt = facts.attempt
    if attempt is None:
        return
    text = f"State={attempt.state} ExitCode={attempt.exit_code}:{attempt.signal}"
    if attempt.derived_exit_code:
        text += f" DerivedExitCode={attempt.derived_exit_code}:0"
    verdict.evidence.append(Evidence(text, Place("sacct"), attempt.end, quoted=False))
    state = facts.trace.nodes.get(verdict.node or "")
    if state is not None:
        text = f"node {state.name} is {state.state} {state.reason}".rstrip()
        verdict.evidence.append(Evidence(text, Place("scontrol"), quoted=True))


def _consequences(
    facts: Facts, verdict: Verdict, root: Cause, causes: list[Cause]
) -> None:
    seen = {root.code}
    for attempt in facts.trace.job.attempts[:-1]:
        code = EARLIER.get(attempt.state)
        if code and code not in seen:
            seen.add(code)
            why = f"ended the run before (restart {attempt.restart})"
            verdict.secondary.append(Consequence(code, why))
    for cause in causes:
        if cause.noise or cause.code in seen or root.code == "NO_FAILURE":
            continue
        seen.add(cause.code)
        why = _wasted(cause, root) or f"follows from {root.code}: {cause.what[:160]}"
        verdict.secondary.append(
            Consequence(cause.code, why, tuple(evidence(cause.events)[:2]))
        )


def _wasted(cause: Cause, root: Cause) -> str:
    """A limit that came long after the failure: the ranks did not exit."""
    if cause.code not in {"TIME_LIMIT", "USER_CANCEL", "PREEMPTED"}:
        return ""
    begin, end = root.shown, cause.shown
    if begin is None or end is None or end - begin < WASTED_S:
        return ""
    hours = (end - begin) / 3600
    return f"{hours:.1f} h were wasted: the failed ranks did not exit ({cause.what})"


def _ruled_out(
    facts: Facts, verdict: Verdict, root: Cause, causes: list[Cause]
) -> None:
    for cause in causes:
        if cause.noise:
            verdict.ruled_out.append(
                RuledOut(cause.code, f"{cause.noise}: {cause.what}")
            )
        elif root.code == "NO_FAILURE":
            why = f"the job ended well in spite of: {cause.what[:160]}"
            verdict.ruled_out.append(RuledOut(cause.code, why))
    verdict.ruled_out += ruled_series(facts) + ruled_checks(facts, verdict)
    verdict.ruled_out += ruled_memory(facts, root)
    symptom = {c.code for c in verdict.secondary}
    if symptom & {"NCCL_TIMEOUT", "NET_SOCKET", "NCCL_INTERNAL"} and root.code not in {
        "NET_IB",
        "NET_SOCKET",
    }:
        why = "ranks that time out or lose a connection only waited for the one above"
        verdict.ruled_out.append(RuledOut("network", why))


def _command(facts: Facts, verdict: Verdict, root: Cause) -> Command:
    """What the code says to do; another text where a node or a place is not known."""
    code = CODES[verdict.code]
    if code.command == PROGRAM and not any("file" in e.fields for e in root.events):
        return Command(UNPLACED, code.why)
    if "{node}" in code.command and not verdict.node:
        return Command(code.nowhere, code.title) if code.nowhere else Command(*NODELESS)
    text = code.command.replace("{node}", verdict.node or "")
    refused = next((e.fields.get("step") for e in facts.of("gang_refused")), None)
    job = facts.trace.job.job_id or (refused or "").partition(".")[0] or "JOBID"
    return Command(text.replace("{job}", job).replace("{code}", verdict.code), code.why)


def _next(facts: Facts, verdict: Verdict, root: Cause) -> None:
    command = _command(facts, verdict, root)
    if command.text:
        verdict.next.append(command)
    for one in offenders(facts.trace.history)[:3]:
        if one.node not in facts.nodes:
            continue
        why = (
            f"{one.node} is in {one.failed} of {one.of} failed jobs of the history and "
            f"in {one.good} that succeeded (chance {one.chance:.1g})"
        )
        verdict.evidence.append(Evidence(why, Place("sacct history"), quoted=False))
        verdict.next.append(Command(f"sbatch --exclude={one.node} …", why))
    held = "held" in facts.trace.job.reason.lower()
    if held and not any("release" in c.text for c in verdict.next):
        verdict.next.append(
            Command(f"scontrol release {facts.trace.job.job_id}", "the job is held")
        )


def timeline(facts: Facts, root: Cause, causes: list[Cause]) -> list[Moment]:
    """What happened when: the cause, what followed, what ended the job."""
    mine = {id(event) for event in root.events}
    others = {id(e): c for c in causes if c is not root for e in c.events}
    made: list[Moment] = []
    told: set[tuple[str, str]] = set()
    for event in facts.events:
        cause = others.get(id(event))
        role = "initiating" if id(event) in mine else ""
        if not role and cause is not None:
            role = "teardown" if cause.level == END else "cascade"
        key = (event.kind, role)
        if not role or (key in told and role != "initiating"):
            continue
        if role == "initiating" and sum(m.role == role for m in made) >= EVIDENCE:
            continue
        told.add(key)
        name = who(event.rank, event.node) or event.place.source
        said = event.text[:200]
        where = (event.place, event.node, event.rank)
        made.append(Moment(event.time, name, said, role, *where))
    return made[:40]
