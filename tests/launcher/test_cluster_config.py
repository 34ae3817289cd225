"""What a cluster's files say, and which requests are refused: no cluster needed."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from gangstart.cluster import (
    command,
    config,
    daemons,
    enter,
    lifecycle,
    net,
    process,
    state,
)
from gangstart.cluster.config import Spec
from gangstart.errors import GangstartError
from gangstart.plugin.recipe import Line

TMP = "/tmp"  # noqa: S108  only named
BASE = Spec(directory="/srv/c")


def slurm(spec: Spec) -> dict[str, str]:
    """Keys and values of the rendered slurm.conf."""
    rows = config.render_slurm(spec).splitlines()
    return dict(row.split("=", 1) for row in rows)


def refused(*arguments: str) -> str:
    """Sentence with which `gangstart cluster` refuses these arguments (code 2)."""
    with pytest.raises(GangstartError) as caught:
        command.main(list(arguments))
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    "name", ["../x", "", "x" * 65, "x" * 33, "-x", "a b", "a/b", "a\nb", "ä", "."]
)
@pytest.mark.parametrize("verb", ["up", "down", "status"])
def test_a_name_that_is_no_name_is_refused(verb: str, name: str) -> None:
    said = refused(verb, f"--name={name}")
    assert "--name" in said
    assert "1 to 32 letters" in said


@pytest.mark.parametrize("name", ["default", "x", "A-b_9", "x" * 32])
def test_an_ordinary_name_is_accepted(name: str) -> None:
    assert config.check_name(name) == name


@pytest.mark.parametrize("nodes", ["0", "-1", "1001", "100000"])
def test_a_number_of_nodes_out_of_range_names_the_range(nodes: str) -> None:
    assert f"-n {nodes} is out of range: 1 to 1000" in refused("up", "-n", nodes)


def test_cpus_out_of_range_name_the_range() -> None:
    assert "--cpus 0 is out of range: 1 to 4096" in refused("up", "--cpus", "0")


@pytest.mark.parametrize(
    ("directory", "private"),
    [(f"{TMP}/c", TMP), ("/run/c", "/run"), ("/dev/c", "/dev")],
)
def test_a_directory_every_node_has_its_own_of_is_refused(
    directory: str, private: str
) -> None:
    assert f"each node has its own {private}" in refused("up", "--dir", directory)


def test_a_symlink_into_tmp_is_refused_too() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as outside:
        link = Path(outside, "link")
        link.symlink_to(TMP)
        assert "each node has its own /tmp" in refused("up", "--dir", str(link / "c"))


@pytest.mark.parametrize("directory", ["/srv/a b", "/srv/#a", "/srv/%n", "/srv/ü"])
def test_a_directory_slurm_cannot_write_down_is_refused(directory: str) -> None:
    assert "is not usable" in refused("up", "--dir", directory)


@pytest.mark.parametrize("argument", ["", "auto", "=x", "a=b c", "a=#", "a=b\nc"])
def test_a_plugin_argument_is_key_equals_value(argument: str) -> None:
    assert "KEY=VALUE" in refused("up", f"--plugin-arg={argument}")


@pytest.mark.parametrize(
    "line", ["", "KillWait", "KillWait=5\nX=1", "Include x=y", "#=1"]
)
def test_a_slurm_conf_line_is_one_key_equals_value(line: str) -> None:
    assert "KEY=VALUE" in refused("up", f"--slurm-conf-line={line}")


def test_a_plugin_that_is_not_there_is_refused() -> None:
    assert "/nowhere/x.so is not a file" in refused("up", "--plugin", "/nowhere/x.so")


def test_run_without_a_command_says_how() -> None:
    assert "run needs a command" in refused("run", "--")


@pytest.mark.parametrize("nodes", [1, 4, 128, 199])
def test_up_to_199_nodes_need_no_neighbour_table(nodes: int) -> None:
    assert config.neighbour_problem(nodes, 1024) is None


def test_many_nodes_and_a_small_neighbour_table_name_the_sysctl() -> None:
    said = config.neighbour_problem(256, 1024)
    assert said is not None
    assert "holds 1024" in said
    assert "net.ipv4.neigh.default.gc_thresh3=16384" in said
    assert config.neighbour_problem(256, 32768) is None


def test_many_nodes_and_an_unreadable_table_are_not_called_healthy() -> None:
    said = config.neighbour_problem(256, None)
    assert said is not None
    assert "may hold less" in said


def test_every_node_has_one_address_and_none_is_the_heads() -> None:
    rows = config.render_hosts(replace(BASE, nodes=1000)).splitlines()[2:]
    addresses = [row.split()[0] for row in rows]
    assert len(set(addresses)) == 1001
    assert rows[0] == "10.98.0.1 head"
    assert rows[1] == "10.98.1.1 n1"
    assert rows[250] == "10.98.1.250 n250"
    assert rows[251] == "10.98.2.1 n251"


def test_slurm_conf_names_the_nodes_and_only_private_paths() -> None:
    conf = slurm(replace(BASE, nodes=4, cpus=16, memory_mb=2000))
    assert conf["NodeName"] == "n[1-4] CPUs=16 RealMemory=2000 State=UNKNOWN"
    assert conf["PlugStackConfig"] == "/srv/c/etc/plugstack.conf"
    assert conf["AuthInfo"] == "socket=/run/munge/munge.socket.2"
    assert not [v for v in conf.values() if v.startswith(("/etc", "/var"))]


def test_one_node_is_written_without_a_range() -> None:
    assert slurm(replace(BASE, nodes=1))["NodeName"].startswith("n1 ")


def test_a_users_line_replaces_the_same_key_whatever_its_case() -> None:
    text = config.render_slurm(
        replace(BASE, slurm_lines=("returntoservice=0", "KillWait=5"))
    )
    assert "ReturnToService" not in text
    assert text.endswith("returntoservice=0\nKillWait=5\n")


def test_plugstack_has_the_archive_and_the_users_arguments() -> None:
    text = config.render_plugstack(
        replace(BASE, plugin="/p.so", plugin_args=("auto=gpu",))
    )
    assert text == "optional /p.so archive=/srv/c/archive auto=gpu\n"


def test_a_users_archive_replaces_the_clusters() -> None:
    text = config.render_plugstack(
        replace(
            BASE, plugin="/p.so", plugin_mode="required", plugin_args=("archive=/x",)
        )
    )
    assert text == "required /p.so archive=/x\n"


def test_without_a_plugin_plugstack_is_empty() -> None:
    assert config.render_plugstack(BASE) == ""


@pytest.mark.parametrize(
    ("said", "plugin"),
    [
        ("slurm-wlm 22.05.8", "cgroup/v1"),
        ("slurm 23.11.4", "cgroup/v1"),
        ("slurm 24.05.2", "disabled"),
        ("slurm 26.05.5-1", "disabled"),
        ("something else", "disabled"),
    ],
)
def test_cgroups_are_off_in_the_words_of_each_release(said: str, plugin: str) -> None:
    text = config.render_cgroup(replace(BASE, release=config.parse_release(said)))
    assert text == f"CgroupPlugin={plugin}\n"


def test_missing_programs_end_in_the_line_that_installs_them() -> None:
    with pytest.raises(GangstartError) as caught:
        daemons.find_tools("/nowhere")
    assert "slurmctld, slurmd, srun, sinfo, munged not found" in caught.value.message
    assert "apt-get install slurmctld slurmd slurm-client" in caught.value.message


def test_only_idle_nodes_that_answer_count() -> None:
    rows = ["2 idle", "1 idle*", "1 down", "3 mixed"]
    assert daemons.count_idle(rows) == 2


def test_roots_clusters_and_a_users_live_apart() -> None:
    assert str(state.default_base(0, {})) == "/var/lib/gangstart/cluster"
    home = state.default_base(1000, {"HOME": "/h/a"})
    assert str(home) == "/h/a/.local/state/gangstart/cluster"
    given = state.default_base(1000, {"HOME": "/h/a", "XDG_STATE_HOME": "/s"})
    assert str(given) == "/s/gangstart/cluster"


def test_a_user_without_a_home_is_told_what_is_missing() -> None:
    with pytest.raises(GangstartError, match="HOME is not set"):
        state.default_base(1000, {})


def test_a_state_survives_its_file(tmp_path: Path) -> None:
    before = state.State(
        spec=Spec(directory=str(tmp_path), plugin_args=("a=b",), release=Line(22, 5)),
        phase=state.UP,
        keeper=7,
        spaces={"n1": {"net": 3}},
    )
    state.write(before)
    assert state.read(tmp_path) == before


def test_a_claimed_name_is_taken_and_given_back(tmp_path: Path) -> None:
    base = tmp_path / "gangstart" / "cluster"
    directory = state.claim(base, "x", "")
    with pytest.raises(FileExistsError):
        state.claim(base, "x", "")
    directory.rmdir()
    state.release(base, "x")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_ones_own_must_be_empty(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "thesis.tex").touch()
    with pytest.raises(GangstartError, match="not an empty directory"):
        state.claim(tmp_path / "base" / "cluster", "x", str(own))
    assert (own / "thesis.tex").exists()


def test_a_closed_umask_does_not_close_the_cluster_to_its_users(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        directory = state.claim(tmp_path / "gangstart" / "cluster", "x", "")
    finally:
        os.umask(before)
    for path in (directory, directory.parent, directory.parent.parent):
        assert path.stat().st_mode & 0o777 == 0o755


def test_a_command_keeps_its_environment() -> None:
    outer = {"PATH": "/x", "SLURM_GANG_START": "60", "SLURM_DEBUG": "1"}
    assert enter.environment(outer, "/c/slurm.conf") == outer | {
        "SLURM_CONF": "/c/slurm.conf"
    }


def test_within_a_job_of_another_slurm_its_variables_are_left_out() -> None:
    outer = {
        "SLURM_JOB_ID": "5",
        "SLURM_NTASKS": "9",
        "PMI_RANK": "0",
        "SLURM_GANG_START": "60",
        "PATH": "/x",
    }
    assert enter.environment(outer, "/c") == {
        "SLURM_CONF": "/c",
        "SLURM_GANG_START": "60",
        "PATH": "/x",
    }


def test_a_netlink_attribute_is_padded_to_four_bytes() -> None:
    assert net.text(3, "br0") == b"\x08\x00\x03\x00br0\x00"
    assert net.text(3, "eth0") == b"\x09\x00\x03\x00eth0\x00\x00\x00\x00"


def test_a_process_that_is_not_there_has_no_start_time() -> None:
    assert process.start_time(2**22 + 1) is None
    assert process.start_time(os.getpid()) is not None


def test_the_plugin_is_replaced_by_rename_and_not_overwritten(tmp_path: Path) -> None:
    # A running slurmd has the old file mapped: overwriting it would crash it.
    (tmp_path / "plugin").mkdir()
    source = tmp_path / "new.so"
    source.write_bytes(b"one")
    cluster = Spec(directory=str(tmp_path))
    installed = tmp_path / "plugin" / lifecycle.PLUGIN
    lifecycle.install_plugin(cluster, str(source))
    with installed.open("rb") as mapped:
        source.write_bytes(b"two")
        lifecycle.install_plugin(cluster, str(source))
        assert mapped.read() == b"one"
    assert installed.read_bytes() == b"two"
