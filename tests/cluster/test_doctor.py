"""gangstart doctor on a real cluster, into which one fault after another is put."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from cluster.doctors import COMMAND, SCHEMA, Doctor
from cluster.gang import until
from gangstart.cluster import Spec, kernel
from gangstart.cluster.config import SPOOL

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.gang import Gang

    Make = Callable[..., Doctor]

pytestmark = pytest.mark.cluster

#: Slurm's default on a private cluster is one of the faults.
SOUND = ("ProctrackType=proctrack/pgid",)
PORTS = "61000-61099"
MS_RDONLY, MS_REMOUNT = 0x1, 0x20  # mount(2)


@pytest.fixture
def make(gang_on: Callable[[Spec], Gang]) -> Make:
    """Bring up a cluster of three sound nodes."""
    if os.getuid() != 0:
        pytest.skip("needs root, to mount and to filter on nodes")

    def made(*lines: str, arguments: tuple[str, ...] = ()) -> Doctor:
        spec = Spec(nodes=3, slurm_lines=(*SOUND, *lines), plugin_args=arguments)
        return Doctor(gang_on(spec))

    return made


def test_nothing_is_wrong_with_a_sound_cluster(make: Make) -> None:
    doctor = make()
    told = doctor.told("--nodes", "all", code=0)
    assert told["verdict"] == "ok"
    assert {one["check"] for one in told["findings"]} == set(
        SCHEMA["properties"]["findings"]["items"]["properties"]["check"]["enum"]
    )
    (nodes,) = [one for one in told["findings"] if one["check"] == "nodes"]
    assert nodes["nodes"] == ["n1", "n2", "n3"]
    doctor.gang.clean(30)


def test_people_get_one_table(make: Make) -> None:
    doctor = make("ProctrackType=proctrack/linuxproc")
    ran = doctor.gang.run([*COMMAND, "--nodes", "n[1-2]"])
    lines = ran.out.splitlines()
    assert (ran.code, ran.err) == (1, "")
    assert lines[0] == "head, 2 of 2 nodes: warn"
    assert lines[1].split() == ["what", "verdict", "where", "reason"]
    assert lines[2].split()[:2] == ["proctrack", "warn"]
    assert lines[-1].startswith("proctrack: ProctrackType=proctrack/cgroup")
    assert len([line for line in lines if line.startswith("proctrack")]) == 2


def test_this_machine_alone_needs_no_srun(make: Make) -> None:
    doctor = make()
    told = doctor.told(code=0)
    assert list(told["facts"]) == ["head"]
    assert "nodes" not in {one["check"] for one in told["findings"]}


def test_files_that_are_missing_on_a_node(make: Make) -> None:
    doctor = make()
    doctor.bind("n2", doctor.fresh("empty"), doctor.library)
    found = doctor.look("--nodes", "all", code=2)
    probe, plugin = (
        f"{doctor.library}/{n}" for n in ("gangstart-probe", "spank_gangstart.so")
    )
    assert found == {
        "plugin": [("fail", f"there is no {plugin}", ("n2",))],
        "probe": [("fail", f"there is no {probe}", ("n2",))],
    }


def test_a_plugin_that_is_missing_beside_its_probe(make: Make) -> None:
    doctor = make()
    folder = doctor.fresh("half")
    shutil.copy2(doctor.library / "gangstart-probe", folder)
    doctor.bind("n2", folder, doctor.library)
    found = doctor.look("--nodes", "all", code=2)
    plugin = f"{doctor.library}/spank_gangstart.so"
    assert found.pop("plugin") == [("fail", f"there is no {plugin}", ("n2",))]
    assert set(found) <= {"restarted"}


def test_another_build_on_one_node(make: Make) -> None:
    doctor = make()
    plugin = doctor.library / "spank_gangstart.so"
    other = doctor.fresh("other") / plugin.name
    other.write_bytes(plugin.read_bytes() + b"\0")
    other.chmod(0o757)
    doctor.bind("n3", other, plugin)
    found = doctor.look("--nodes", "all", code=1)
    (build,) = found.pop("build")
    assert (build[0], build[2]) == ("warn", ("n3",))
    assert "most have" in build[1]
    assert found.pop("plugin") == [
        ("warn", f"{plugin} is of user 0, mode 0757: root runs it", ("n3",))
    ]
    # Its slurmd may be found older than the file that was put there.
    assert {row[2] for row in found.pop("restarted", [])} <= {("n3",)}
    assert found == {}


def test_a_plugin_for_another_release(make: Make) -> None:
    doctor = make()
    plugin = doctor.library / "spank_gangstart.so"
    other = doctor.fresh("other") / plugin.name
    number = int("".join(doctor_version(doctor)), 16)
    content = plugin.read_bytes()
    old, new = (n.to_bytes(4, "little") for n in (number, 0x1E0100))
    assert content.count(old)
    other.write_bytes(content.replace(old, new))
    doctor.bind("n1", other, plugin)
    found = doctor.look("--nodes", "all", code=2)
    ((verdict, reason, nodes),) = found["line"]
    assert (verdict, nodes) == ("fail", ("n1",))
    assert "the plugin is for Slurm 30.01, and " in reason


def doctor_version(doctor: Doctor) -> list[str]:
    """The plugin's Slurm as hexadecimal digits, as spank(7) has it."""
    told = doctor.told(code=0)
    (version,) = told["facts"]["head"]["values"]["plugin_slurm"]
    return [f"{int(part):02x}" for part in version.split(".")]


def test_a_plugin_that_is_listed_twice_or_before_containers(make: Make) -> None:
    doctor = make()
    with doctor.gang.plugstack("{ours}", "{ours}", "optional spank_pyxis.so"):
        found = doctor.look(code=1)
    stack = doctor.gang.cluster.directory / "etc/plugstack.conf"
    assert found == {
        "twice": [("warn", f"2 lines: {stack} line 1 and {stack} line 2", ())],
        "order": [
            (
                "warn",
                f"{stack} line 1 comes before spank_pyxis.so ({stack} line 3)",
                (),
            )
        ],
    }


def test_a_plugin_that_is_not_listed_or_has_a_bad_key(make: Make) -> None:
    doctor = make()
    with doctor.gang.plugstack("optional spank_pyxis.so"):
        found = doctor.look(code=2)
        assert found["plugstack"][0][1].endswith("plugstack.conf names no gangstart")
        assert found["option"][0][0] == "fail"
    with doctor.gang.plugstack("{ours} timeout=soon"):
        ((verdict, reason, _),) = doctor.look(code=2)["plugstack"]
        assert verdict == "fail"
        assert "timeout=soon" in reason


def filtered(doctor: Doctor, node: str) -> None:
    """Let the head drop what a node sends to the ports."""
    address = doctor.gang.address(node)
    rules = doctor.gang.folder / "rules.nft"
    rules.write_text(
        "table inet closed {\n chain in {\n type filter hook input priority 0;\n"
        f" ip saddr {address} tcp dport {PORTS} drop\n }}\n}}\n"
    )
    if shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin") is None:
        pytest.skip("needs nft (apt-get install nftables)")
    doctor.on("head", "/usr/sbin/nft", "-f", rules)


def test_ports_that_a_firewall_closes_to_one_node(make: Make) -> None:
    doctor = make(arguments=(f"ports={PORTS}",))
    filtered(doctor, "n2")
    found = doctor.look("--nodes", "all", code=1)
    ((verdict, reason, nodes),) = found.pop("ports")
    assert (verdict, nodes) == ("warn", ("n2",))
    assert f"(ports={PORTS}): Connection timed out" in reason
    assert [row[:1] + row[2:] for row in found.pop("clock")] == [("unknown", ("n2",))]
    assert found == {}


def test_a_closed_srunportrange_silences_the_node_and_no_other(make: Make) -> None:
    doctor = make(f"SrunPortRange={PORTS}")
    filtered(doctor, "n2")
    found = doctor.look("--nodes", "all", "--deadline", "30", code=2)
    ((verdict, reason, nodes),) = found.pop("nodes")
    assert (verdict, nodes) == ("fail", ("n2",))
    assert reason.startswith("no answer: ")
    assert found == {}
    doctor.gang.sweep()


def test_a_slurmd_that_is_older_than_the_plugin(make: Make) -> None:
    doctor = make()
    told = doctor.told("--nodes", "all", code=0)["facts"]
    latest = max(int(told[n]["values"]["slurmd_began"][0]) for n in ("n1", "n2", "n3"))
    plugin = doctor.library / "spank_gangstart.so"

    def younger() -> bool:
        fresh = plugin.with_name("fresh")
        shutil.copy2(plugin, fresh)
        fresh.replace(plugin)
        return int(plugin.stat().st_ctime) > latest + 2

    until(younger, "the clock to go on")
    found = doctor.look("--nodes", "all", code=1)
    ((verdict, reason, nodes),) = found.pop("restarted")
    assert (verdict, nodes) == ("warn", ("n1", "n2", "n3"))
    assert reason == f"slurmd was started before {plugin} changed"
    assert found == {}


def test_an_interface_with_another_mtu(make: Make) -> None:
    doctor = make()
    doctor.on("n3", "ip", "link", "set", "dev", "eth0", "mtu", "1280")
    ((verdict, reason, nodes),) = doctor.look("--nodes", "all", code=1)["mtu"]
    assert (verdict, nodes) == ("warn", ("n3",))
    assert reason.startswith("MTU 1280 of eth0, most have ")


def test_an_interface_that_a_node_has_not_got(make: Make) -> None:
    doctor = make(arguments=("master-iface=eth0",))
    assert doctor.look("--nodes", "all", code=0) == {}
    with doctor.gang.plugstack("{ours} master-iface=ib0"):
        rows = doctor.look("--nodes", "all", code=2)["iface"]
    assert {row[0] for row in rows} == {"fail"}
    assert {node for row in rows for node in row[2]} == {"n1", "n2", "n3"}
    assert all(row[1].startswith("master-iface=ib0: ") for row in rows)


def test_a_spool_that_is_read_only_and_an_archive_that_is_gone(make: Make) -> None:
    doctor = make()
    flags = MS_REMOUNT | kernel.MS_BIND | MS_RDONLY
    code = "from gangstart.cluster import kernel as k"
    code += f"; k.mount('', {SPOOL!r}, '', {flags})"
    doctor.on("n1", sys.executable, "-c", code)
    archive = doctor.gang.cluster.directory / "archive"
    archive.rmdir()
    found = doctor.look("--nodes", "all", code=2)
    assert found == {
        "spool": [
            ("fail", "/run/gangstart: the file system is read-only", ("n1",)),
        ],
        "archive": [
            (
                "fail",
                f"{archive}: No such file or directory",
                ("head", "n1", "n2", "n3"),
            )
        ],
    }
    archive.mkdir()


def test_a_node_without_munge_is_the_one_that_does_not_answer(make: Make) -> None:
    doctor = make()
    doctor.bind("n2", doctor.fresh("empty"), "/run/munge")
    found = doctor.look("--nodes", "all", "--deadline", "45", code=2)
    ((verdict, reason, nodes),) = found.pop("nodes")
    assert (verdict, nodes) == ("fail", ("n2",))
    assert reason.startswith("no answer: ")
    assert found == {}
    doctor.gang.sweep()


def test_without_munge_it_says_so_and_looks_at_this_machine_only(make: Make) -> None:
    doctor = make()
    (munged,) = doctor.gang.cluster.node_pids("head", "munged")
    os.kill(munged, signal.SIGKILL)
    until(lambda: not doctor.gang.cluster.node_pids("head", "munged"), "munged to end")
    found = doctor.look("--nodes", "n[1-3]", "--deadline", "60", code=2)
    assert found["auth"][0][0] == "fail"
    assert found["slurm"][0][0] == "unknown"
    ((verdict, reason, _),) = found["nodes"]
    assert verdict == "unknown"
    assert reason.startswith("srun cannot be used, this machine only: ")


def test_nodes_that_are_away_or_busy_are_not_waited_for(make: Make) -> None:
    doctor = make()
    gang = doctor.gang
    drain = ["scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test"]
    assert gang.run(drain).code == 0
    ran = gang.run(
        ["sbatch", "-wn2", "--exclusive", "--output=/dev/null", "--wrap", "sleep 300"]
    )
    assert ran.code == 0
    until(lambda: bool(gang.run(["squeue", "-h", "-t", "R"]).out), "the job to run")
    found = doctor.look("--nodes", "all", code=3)
    assert [row[0] for row in found["nodes"]] == ["unknown", "unknown"]
    assert {row[2] for row in found["nodes"]} == {("n1",), ("n2",)}
    assert set(found) == {"nodes"}
    gang.sweep()


def test_inside_of_a_job_its_own_nodes_are_asked(make: Make) -> None:
    doctor = make()
    command = ["salloc", "-N2", "-wn[1-2]", "--exclusive", *COMMAND]
    ran = doctor.gang.run([*command, "--json", "--nodes", "n[1-2]"])
    assert ran.code == 0, ran.out + ran.err
    assert set(json.loads(ran.out)["facts"]) == {"head", "n1", "n2"}


def test_inside_of_a_job_other_nodes_are_named_and_not_asked(make: Make) -> None:
    doctor = make()
    command = ["salloc", "-N1", "-wn1", "--exclusive", *COMMAND]
    ran = doctor.gang.run([*command, "--json", "--nodes", "n[1-2]"])
    told = json.loads(ran.out)["facts"]
    assert told["n1"]["problem"] == ""
    assert told["n2"]["problem"] == "not asked: not in this allocation"


def test_a_node_that_hangs_costs_the_deadline_and_leaves_no_job(make: Make) -> None:
    doctor = make()
    gang = doctor.gang
    gang.cluster.signal_slurmd("n2", "stop")
    try:
        ran = gang.run([*COMMAND, "--json", "--nodes", "n[1-3]", "--deadline", "8"])
        left = gang.run(["squeue", "-h", "-t", "PD,CF,R", "-o", "%j"]).out
    finally:
        gang.cluster.signal_slurmd("n2", "cont")
        gang.sweep()
    told = json.loads(ran.out)["facts"]
    assert "no answer" in told["n2"]["problem"]
    assert left == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "n[1-9]"), "--nodes names n[5-9], which sinfo does not know"),
        (("--nodes", "n["), "n["),
        (("--deadline", "0"), "--deadline 0 is not 5 to 3600 seconds"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    gang: Gang, words: tuple[str, ...], said: str
) -> None:
    ran = gang.run([*COMMAND, *words])
    assert ran.code in (2, 78)
    assert ran.err.startswith("gangstart: ")
    assert ran.err.count("\n") == 1
    assert said in ran.err


def test_only_a_terminal_sees_progress(make: Make) -> None:
    doctor = make()
    screen, terminal = os.openpty()
    popen = doctor.gang.cluster.popen(
        [*COMMAND, "--nodes", "all"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        env=doctor.gang.env,
    )
    os.close(terminal)
    assert popen.wait(60) == 0
    seen = os.read(screen, 65536).decode()
    os.close(screen)
    assert "doctor: 3 of 3 nodes asked" in seen
    assert seen.endswith("\r\x1b[K")


def test_a_group_that_cannot_be_had_is_asked_node_by_node(make: Make) -> None:
    doctor = make()
    gang = doctor.gang
    limit = ["scontrol", "update", "PartitionName=all", "MaxNodes=1"]
    assert gang.run(limit).code == 0
    told = doctor.told("--nodes", "all", code=0)
    (nodes,) = [one for one in told["findings"] if one["check"] == "nodes"]
    assert nodes["nodes"] == ["n1", "n2", "n3"]
