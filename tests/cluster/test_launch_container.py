"""Beside a plugin that starts containers: see container.c."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.gang import WAITING, Gang, refusal, until, why
from cluster.trouble import NEVER, elapse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.cluster

EVERYBODY = ("-N4", "--ntasks-per-node=2")
IMAGE = "--test-image=some"
PATIENCE = 5.0
#: An ordinary user that every machine has.
USER = "nobody"
#: Prints where it is, and by its exit code that it is not Slurm's own.
WHO = (
    "sh",
    "-c",
    "echo $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR $(ls -d /boot/inside); exit 7",
)


@pytest.fixture(scope="module")
def container(compiled: Callable[[str], str]) -> str:
    """Compile the neighbour; its line in plugstack.conf."""
    return compiled("container")


@pytest.fixture
def before(gang: Gang, container: str) -> Iterator[Gang]:
    """Containers are there before our turn: as it should be."""
    with gang.plugstack(container, "{ours}"):
        yield gang


@pytest.fixture
def behind(gang: Gang, container: str) -> Iterator[Gang]:
    """Containers are made after the start."""
    with gang.plugstack("{ours}", container):
        yield gang


def imports(gang: Gang, where: str, who: str, until_is: str | Path) -> dict[str, str]:
    """Environment of a step in which some import takes its time."""
    return {
        "CONTAINER_WHERE": where,
        "CONTAINER_WHO": f",{who},",
        "CONTAINER_HOLD": str(until_is),
        "CONTAINER_MARKS": str(gang.folder),
    }


def marks(gang: Gang) -> dict[int, int]:
    """Rank -> pid of every task whose container was begun."""
    return {
        int(path.suffix[1:]): int(path.read_text())
        for path in gang.folder.glob("image.*")
    }


def check_gone(gang: Gang) -> None:
    """Nothing is left, in no namespace: the cluster's own list knows only its own."""
    gang.clean(20)
    left = [pid for pid in marks(gang).values() if Path(f"/proc/{pid}").exists()]
    assert left == []


def test_a_start_inside_containers_waits_for_the_slowest_import(before: Gang) -> None:
    late = before.folder / "late"
    env = imports(before, "task_init", "5", late)
    running = before.start(
        ["srun", *EVERYBODY, IMAGE, "--gang-start=60", *WHO], env=env
    )
    before.until_waiting(7)
    elapse(1.2)
    late.touch()
    ran = running.wait()
    assert ran.code == 7, ran.err
    assert [row[:5] for row in ran.rows] == [
        [str(rank), str(rank % 2), "8", before.address("n1"), "/boot/inside"]
        for rank in range(8)
    ]
    assert len(ran.told) == 1, ran.err
    skew = ran.told[0].partition("(last: rank 5 on n3, +")[2].partition(" s)")[0]
    assert float(skew) >= 1.0
    check_gone(before)


def test_an_import_that_hangs_is_named_and_no_program_runs(before: Gang) -> None:
    ran = before.srun(
        *(*EVERYBODY, IMAGE, "--gang-start=2", *before.trace()),
        env=imports(before, "task_init", "5", NEVER),
    )
    assert refusal(ran) == {"n3": ("4-5", "rank 5 not started")}
    told = why(ran, "n3")
    assert "still in task_init of container or Slurm's set-up, running enroot" in told
    assert ran.seconds <= 2 + PATIENCE
    check_gone(before)
    assert before.started() == []


def test_an_import_before_the_tasks_are_forked_is_named(before: Gang) -> None:
    late = before.folder / "late"
    ran = before.srun(
        *(*EVERYBODY, IMAGE, "--gang-start=2", *before.trace()),
        env=imports(before, "user_init", "2", late),
    )
    assert refusal(ran) == {"n3": ("4-5", "never connected")}
    told = why(ran, "n3")
    assert told.startswith("slurmd answers; still in user_init of container for ")
    assert ran.seconds <= 2 + PATIENCE
    late.touch()
    check_gone(before)
    assert before.started() == []


def test_a_network_of_rank_0s_own_is_told_and_nothing_is_called_proven(
    before: Gang,
) -> None:
    ran = before.srun(
        *(*EVERYBODY, IMAGE, "--gang-start=20", *WHO),
        env={"CONTAINER_NETWORK": "all", "CONTAINER_MARKS": str(before.folder)},
    )
    assert ran.code == 7, ran.err
    assert [row[0] for row in ran.rows] == [str(rank) for rank in range(8)]
    start, warning = ran.told
    assert "8/8 tasks on 4/4 nodes" in start
    assert warning.startswith(
        "gang-start: warning: rank 0 is in a network namespace that is not n1's"
    )
    assert f"MASTER_ADDR {before.address('n1')} port " in warning
    assert warning.endswith("(so for 8 of 8 tasks)")
    report = before.copies()[-1]
    assert report["warnings"] == ["NETWORK_NAMESPACE"]
    assert report["master"]["proven"] is False
    check_gone(before)


def test_a_network_of_another_ranks_own_is_told(before: Gang) -> None:
    ran = before.srun(
        *(*EVERYBODY, IMAGE, "--gang-start=20", *WHO),
        env={"CONTAINER_NETWORK": ",3,", "CONTAINER_MARKS": str(before.folder)},
    )
    assert ran.code == 7, ran.err
    _, warning = ran.told
    assert "rank 3 is in a network namespace that is not n2's" in warning
    assert "whether it does is not known" in warning
    assert before.copies()[-1]["master"]["proven"] is True
    check_gone(before)


def test_containers_that_are_made_after_the_start_work(behind: Gang) -> None:
    late = behind.folder / "late"
    env = imports(behind, "task_init", "5", late)
    running = behind.start(
        ["srun", *EVERYBODY, IMAGE, "--gang-start=20", *WHO], env=env
    )
    until(lambda: "8/8 tasks" in running.text("err"), "the start")
    until(lambda: behind.pids(WAITING) == {}, "all to be let go")
    late.touch()
    ran = running.wait()
    assert ran.code == 7, ran.err
    assert [[row[0], row[4]] for row in ran.rows] == [
        [str(rank), "/boot/inside"] for rank in range(8)
    ]
    assert len(ran.told) == 1, ran.err
    check_gone(behind)


def test_a_refused_start_makes_no_container_after_it(
    gang: Gang, container: str, saboteur: str
) -> None:
    env = imports(gang, "task_init", "-", NEVER) | {
        "SABOTEUR_HOOK": "task_init",
        "SABOTEUR_WHO": ",3,",
        "SABOTEUR_DOES": "exit=3",
    }
    with gang.plugstack(saboteur, "{ours}", container):
        ran = gang.srun(*EVERYBODY, IMAGE, "--gang-start=20", *gang.trace(), env=env)
    assert set(refusal(ran)) == {"n2"}
    assert marks(gang) == {}
    check_gone(gang)


@pytest.mark.parametrize("order", ["before", "behind"])
def test_a_container_without_the_flag_and_a_start_without_a_container(
    request: pytest.FixtureRequest, order: str
) -> None:
    gang: Gang = request.getfixturevalue(order)
    show = ("sh", "-c", "echo ${RANK-none} $(ls /boot | grep -c inside)")
    plain = gang.srun("-N2", IMAGE, *show)
    assert (plain.code, plain.out, plain.err) == (0, "none 1\nnone 1\n", "")
    gang.quiet()
    ran = gang.srun("-N2", "--gang-start=20", *show)
    assert (ran.code, ran.rows) == (0, [["0", "0"], ["1", "0"]])
    assert len(ran.told) == 1
    gang.clean(10)


def test_an_ordinary_user_starts_inside_a_user_namespace(before: Gang) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root to run steps as another user")
    done = before.cluster.run(["unshare", "-Urmn", "true"], user=USER)
    if done.returncode != 0:
        pytest.skip(f"ordinary users get no namespaces: {done.stderr.strip()}")
    own = Gang(before.cluster, before.folder, before.watch, USER)
    ran = own.srun(
        *(*EVERYBODY, IMAGE, "--gang-start=20", *WHO),
        env={"CONTAINER_NETWORK": "all", "CONTAINER_MARKS": str(before.folder)},
    )
    assert ran.code == 7, ran.err
    assert [[row[0], row[4]] for row in ran.rows] == [
        [str(rank), "/boot/inside"] for rank in range(8)
    ]
    assert "warning: rank 0 is in a network namespace" in ran.told[1]
    check_gone(before)
