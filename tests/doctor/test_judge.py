"""The verdicts of doctor on facts that no private cluster can be made to have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gangstart import plugstack
from gangstart.doctor import ask, catalogue, facts, judge_files, judge_node, judge_site
from gangstart.doctor.facts import Facts
from gangstart.doctor.outcome import findings, outcome
from gangstart.doctor.scene import Scene
from gangstart.doctor.site import Node, Site, node_rows, settings

if TYPE_CHECKING:
    from gangstart.check.result import Finding

NONCE = "0123456789abcdef"
SENT = 1_796_000_000_000_000
SOUND = f"""\
facts=1
version=0.1.0
plugin=/usr/lib/slurm/spank_gangstart.so
plugin_state=ok
plugin_owner=0
plugin_mode=0755
plugin_sha256={"a" * 64}
plugin_slurm=24.11.5
file=/usr/lib/slurm/spank_gangstart.so 1000
limit_nofile=4096
rdma=0
slurmd=77
slurmd_began=2000
slurmd_memlock=unlimited
clock_synced=yes
iface=lo 127.0.0.1 up 65536
iface=ib0 10.1.0.1 up 2044
connect=10.1.0.9:61000 ok 10.1.0.1 200 {SENT + 300} gangstart {NONCE} {SENT}
chosen=ib0 10.1.0.1
munge=/run/munge/munge.socket.2 ok
spool=/run/gangstart ok 99999999999
archive=/shared ok 99999999999
gpus_nvidia=0
gpus_amd=0
end=1
"""
CONFIG = {
    "authtype": "auth/munge",
    "clustername": "c",
    "plugindir": "/usr/lib/slurm",
    "proctracktype": "proctrack/cgroup",
    "prologflags": "Alloc,Contain",
    "slurm_version": "24.11.5",
}
ROW = plugstack.Row(
    Path("/etc/slurm/plugstack.conf"),
    1,
    ("optional", "spank_gangstart.so", "archive=/shared"),
)


def node(name: str = "n1", **changes: str | None) -> Facts:
    """Sound facts, some of which are changed (None: not told)."""
    told = facts.parse(name, SOUND)
    values = dict(told.values)
    for key, value in changes.items():
        values.pop(key, None)
        if value is not None:
            values[key] = (value,)
    return Facts(name, values)


def scene(*nodes: Facts, **changes: object) -> Scene:
    """Three sound nodes and a sound site, or the given nodes."""
    told = nodes or tuple(node(f"n{i}") for i in (1, 2, 3))
    known = tuple(Node(one.node, version="24.11.5") for one in told)
    site = Site(config=CONFIG, version="24.11.5", option=True, rows=(ROW,), nodes=known)
    here = replace(node("login"), values=dict(node("login", slurmd=None).values))
    made = Scene(site=site, here=here, nodes={t.node: t for t in told}, nonce=NONCE)
    return replace(made, **changes)  # type: ignore[arg-type]


def of(found: list[Finding], check: str) -> list[tuple[str, str, str]]:
    """Verdict, reason and nodes of one check."""
    return [(f.verdict, f.reason, f.subject) for f in found if f.check == check]


def test_sound_facts_are_ok_in_every_check() -> None:
    found = findings(scene())
    assert {f.verdict for f in found} == {"ok"}
    assert {f.check for f in found} == {row.id for row in catalogue.CHECKS}
    assert all(f.action == "" for f in found)


@pytest.mark.parametrize(
    ("check", "changes", "verdict", "said"),
    [
        ("gpu", {"gpus_nvidia": "8", "driver_loaded": "no"}, "fail", "no driver"),
        (
            "gpu",
            {"gpus_nvidia": "8", "nvml": "failed X"},
            "fail",
            "NVML says: failed X",
        ),
        ("gpu", {"gpus_nvidia": "8", "nvml": "ok 8", "driver": "550"}, "ok", "550"),
        (
            "gpu",
            {"gpus_nvidia": "8", "asking": "nvml", "end": None},
            "fail",
            "driver does not answer",
        ),
        ("gpu", {"gpus_amd": "4", "driver_amd": "no"}, "fail", "amdgpu is not loaded"),
        ("gpu", {"gpus_amd": "4", "driver_amd": "yes"}, "ok", "amdgpu is loaded"),
        ("memlock", {"rdma": "2", "slurmd_memlock": "8388608"}, "warn", "8388608"),
        ("memlock", {"rdma": "2", "slurmd_memlock": None}, "unknown", "cannot be seen"),
        ("memlock", {"rdma": "2"}, "ok", "unlimited"),
        ("archive", {"archive": "/shared hangs"}, "fail", "/shared does not answer"),
        ("archive", {"archive": "/s failed: Permission denied"}, "unknown", "denied"),
        ("spool", {"spool": "/run/gangstart ok 4096"}, "warn", "only 4 KiB are free"),
        ("spool", {"spool": None}, "unknown", "not looked at"),
        ("restarted", {"slurmd_began": "500"}, "warn", "was started before"),
        ("restarted", {"slurmd_began": "-1"}, "unknown", "cannot be seen"),
        ("probe", {"version": "0.0.9"}, "warn", "0.0.9, here it is 0.1.0"),
        ("plugin", {"plugin_mode": "0775"}, "warn", "root runs it"),
        ("plugin", {"plugin_owner": "1000"}, "warn", "user 1000"),
        ("plugin", {"plugin_state": "Permission denied"}, "fail", "denied"),
        ("line", {"plugin_slurm": None}, "unknown", "does not say"),
        ("line", {"plugin_slurm": "22.05.8"}, "fail", "22.05, and 24.11 runs"),
        ("iface", {"chosen": "none: no interface ib0"}, "fail", "no interface ib0"),
        ("auth", {"munge": "/m failed: Connection refused"}, "fail", "refused"),
        ("ports", {"connect": "10.1.0.9:1 failed: No route"}, "warn", "No route"),
        (
            "ports",
            {"connect": f"a:1 ok b 1 {SENT} gangstart other {SENT}"},
            "warn",
            "answered by somebody else",
        ),
    ],
)
def test_one_fact_that_is_not_right_is_one_finding(
    check: str, changes: dict[str, str | None], verdict: str, said: str
) -> None:
    found = of(findings(scene(node(), node("n2", **changes), node("n3"))), check)
    rows = [row for row in found if row[2] == "n2"]
    assert len(rows) == 1, found
    assert rows[0][0] == verdict
    assert said in rows[0][1]


@pytest.mark.parametrize(
    ("ahead_us", "verdict", "said"),
    [
        (400_000, "ok", "within 0.5 s"),
        (2_000_000, "warn", "2.0 s ahead"),
        (-2_000_000, "warn", "2.0 s behind"),
        (301_000_000, "fail", "301.0 s ahead"),
    ],
)
def test_a_clock_is_compared_with_the_answer_from_here(
    ahead_us: int, verdict: str, said: str
) -> None:
    words = f"a:1 ok b 200 {SENT + ahead_us} gangstart {NONCE} {SENT}"
    told, reason = judge_node.clock_of(node(connect=words))
    assert (told, said in reason) == (verdict, True)


def test_a_clock_that_nothing_keeps_right_is_said() -> None:
    told, reason = judge_node.clock_of(node(clock_synced="no"))
    assert told == "ok"
    assert "not synchronised" in reason


def test_one_build_in_each_release_line_is_right() -> None:
    new = {"plugin_slurm": "26.05.1", "plugin_sha256": "b" * 64}
    made = scene(node(), node("n2", **new))
    newer = Node("n2", version="26.05.5")
    known = (made.site.nodes[0], newer)
    found = findings(replace(made, site=replace(made.site, nodes=known)))
    assert {row[0] for row in of(found, "build") + of(found, "line")} == {"ok"}


def test_the_odd_build_is_the_one_that_few_have() -> None:
    odd = node("n3", plugin_sha256="b" * 64)
    found = of(findings(scene(node(), node("n2"), odd)), "build")
    assert [(row[0], row[2]) for row in found] == [
        ("warn", "n3"),
        ("ok", "login,n[1-2]"),
    ]


def test_gpus_that_slurm_gives_out_have_to_be_there() -> None:
    assert judge_node.gpu_of(node(), 4)[0] == "fail"
    few = node(gpus_nvidia="4", nvml="ok 3")
    assert judge_node.gpu_of(few, 4) == (
        "warn",
        "NVML sees 3 GPUs, Slurm gives out 4",
    )
    assert Node("n", gres="gpu:h100:8(S:0-1),gpu:4,nvme:2").gpus == 12


@pytest.mark.parametrize(
    ("flags", "hooks", "verdict"),
    [
        ("Alloc,Contain", "drain", "ok"),
        ("", "record", "ok"),
        ("", "drain", "warn"),
        ("RunInJob", "off", "warn"),
    ],
)
def test_prolog_flags(flags: str, hooks: str, verdict: str) -> None:
    row = ROW._replace(words=(*ROW.words, f"hooks={hooks}"))
    made = scene()
    config = CONFIG | {"prologflags": flags or "(null)"}
    changed = replace(made.site, config=config, rows=(row,))
    (found,) = judge_site.flags(replace(made, site=changed))
    assert found.verdict == verdict


def test_too_few_files_for_the_cluster() -> None:
    made = scene(here=node("login", limit_nofile="69"))
    (found,) = judge_site.nofile(made)
    assert (found.verdict, "may need 70" in found.reason) == ("warn", True)


def test_what_is_required_stops_every_job_when_it_is_missing() -> None:
    made = scene()
    row = ROW._replace(words=("required", "spank_gangstart.so"))
    found = list(
        judge_site.plugged(replace(made, site=replace(made.site, rows=(row,))))
    )
    assert [one.verdict for one in found] == ["warn"]


def test_nothing_that_is_not_known_is_ok() -> None:
    empty = Scene(here=Facts("login", problem="no probe"))
    verdicts = {f.check: f.verdict for f in findings(empty)}
    assert "ok" not in {verdicts[name] for name in verdicts if name != "auth"}
    assert verdicts["slurm"] == "unknown"
    assert verdicts["plugin"] == "unknown"


def test_where_slurm_is_not_set_up_there_is_no_probe_to_ask() -> None:
    assert Site().probe == ""
    assert Site(config={"plugindir": "/usr/lib/slurm"}).probe == (
        "/usr/lib/slurm/gangstart-probe"
    )


def test_auth_without_munge_is_not_asked_of_it() -> None:
    made = scene()
    config = CONFIG | {"authtype": "auth/slurm"}
    (found,) = judge_node.auth(replace(made, site=replace(made.site, config=config)))
    assert (found.verdict, found.reason.split(";")[0]) == ("ok", "auth/slurm")


def test_a_node_with_only_a_shell_is_told_by_it() -> None:
    told = facts.parse("n1", "node=n1\nproblem=missing\nplugin_state=missing\n")
    found = findings(scene(told))
    assert of(found, "probe")[0][0] == "fail"
    assert of(found, "plugin")[0][2] == "n1"
    assert not [row for row in of(found, "nodes") if row[0] != "ok"]


def test_an_older_probe_is_named_by_what_it_said() -> None:
    line = '{"error":"gangstart-probe: option \'--facts\' is unknown"}'
    told = facts.parse("n1", f"node=n1\n{line}\n")
    ((verdict, reason, _),) = of(findings(scene(told)), "nodes")
    assert (verdict, "--facts" in reason) == ("fail", True)


def test_what_a_node_says_cannot_reach_the_terminal() -> None:
    told = node("n2", plugin_state="bad\x1b[31m\u202e")
    for one in findings(scene(told)):
        assert one.reason.isprintable()
    assert "fail" in {one.verdict for one in judge_files.plugin(scene(told))}


def test_the_output_of_tasks_is_taken_apart_by_their_labels() -> None:
    text = "1: node=n2\n0: node=n1\n1: facts=1\n 0: facts=1\nnoise\n2: stray=1\n"
    assert facts.by_label(text) == {
        "n2": "node=n2\nfacts=1",
        "n1": "node=n1\nfacts=1",
    }


def test_sinfo_and_scontrol_are_read() -> None:
    row = f"{'n1':200}{'gpu':200}{'idle':40}{'24.11.5':40}{'gpu:8':400}"
    other = f"{'n1':200}{'main*':200}{'idle':40}{'24.11.5':40}{'gpu:8':400}"
    (found,) = node_rows(f"{row}\n{other}\n")
    assert found == Node("n1", "idle", "24.11.5", "gpu:8", "main")
    read = settings("PluginDir               = /a:/b\nSlurmctldHost[0] = x\n")
    assert read["plugindir"] == "/a:/b"


def test_everything_is_in_the_json() -> None:
    made = scene()
    told = outcome(made, findings(made), 1.0)
    assert told["verdict"] == "ok"
    assert set(told["facts"]) == {"login", "n1", "n2", "n3"}


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("idle", ""),
        ("mix-", ""),
        ("alloc$", ""),
        ("idle~", "not asked: Slurm says it is idle~ (powered off)"),
        ("idle#", "not asked: Slurm says it is idle# (being powered up)"),
        ("idle%", "not asked: Slurm says it is idle% (being powered down)"),
        ("mix*", "not asked: Slurm says it is mix* (does not respond)"),
        ("idle^", "not asked: Slurm says it is idle^ (rebooting)"),
        ("down*", "not asked: Slurm says it is down* (does not respond)"),
        ("drain", "not asked: Slurm says it is drain"),
    ],
)
def test_a_node_that_srun_would_wake_or_not_get_is_not_asked(
    state: str, why: str
) -> None:
    assert ask.unfit(Node("n1", state), None) == why
    assert ask.unfit(Node("n1", state), frozenset({"n1"})) == ""
    other = ask.unfit(Node("n1", state), frozenset({"n2"}))
    assert other == "not asked: not in this allocation"
