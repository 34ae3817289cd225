"""Every preset on real nodes: what the tasks are given, and what stays there."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cluster.gang import Gang

pytestmark = pytest.mark.cluster

ALL = "torch+horovod+tensorflow+jax+deepspeed+accelerate+lightning"
SHOW = (
    "import json, os; e = dict(os.environ); "
    "e['where'] = os.environ['SLURMD_NODENAME']; print(json.dumps(e))"
)
LAYOUTS = {
    "block": ["-N3", "-n5"],
    "cyclic": ["-N3", "-n5", "-m", "cyclic"],
    "plane": ["-N2", "-n5", "-m", "plane=2"],
    "one per node": ["-N4", "-n4"],
}


def environments(gang: Gang, *options: str, **own: str) -> list[dict[str, str]]:
    """The environment of each task, in rank order; long lines of srun's get mixed."""
    output = ["-o", f"{gang.folder}/task.%t"]
    command = [sys.executable, "-c", SHOW]
    ran = gang.srun(*output, *options, *command, env=own or None)
    assert ran.code == 0, ran.err
    files = sorted(gang.folder.glob("task.*"), key=lambda path: int(path.suffix[1:]))
    return [json.loads(path.read_text()) for path in files]


@pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS)
def test_every_framework_is_told_the_same_world(gang: Gang, options: list[str]) -> None:
    flag = f"--gang-start=20,env={ALL}"
    tasks = environments(gang, flag, *options)
    where = [env["where"] for env in tasks]
    workers = json.loads(tasks[0]["TF_CONFIG"])["cluster"]["worker"]
    assert [worker.split(":")[0] for worker in workers] == where
    assert len(set(workers)) == len(tasks)
    place = f"{tasks[0]['MASTER_ADDR']}:{tasks[0]['MASTER_PORT']}"
    for rank, env in enumerate(tasks):
        config = json.loads(env["TF_CONFIG"])
        assert config["cluster"]["worker"] == workers
        assert config["task"]["index"] == rank
        assert env["JAX_COORDINATOR_ADDRESS"] == place
        assert env["HOROVOD_RANK"] == env["JAX_PROCESS_ID"] == env["RANK"] == str(rank)
        assert env["HOROVOD_HOSTNAME"] == where[rank]
        peers = [
            other["where"]
            for other in tasks
            if other["LOCAL_RANK"] == env["LOCAL_RANK"]
        ]
        assert env["HOROVOD_CROSS_SIZE"] == str(len(peers))
        assert env["HOROVOD_CROSS_RANK"] == str(sorted(peers).index(where[rank]))
        assert "GANGSTART_KEPT" not in env


def test_what_the_user_chose_is_kept_by_every_task(gang: Gang) -> None:
    chosen = {"JAX_COORDINATOR_ADDRESS": "n1:4711", "HOROVOD_CONTROLLER": "mpi"}
    flag = "--gang-start=20,env=horovod+jax"
    for env in environments(gang, flag, "-N2", "-n2", **chosen):
        assert {name: env[name] for name in chosen} == chosen
        assert set(env["GANGSTART_KEPT"].split()) == set(chosen)


def test_a_layout_tensorflow_cannot_be_told_refuses_the_start(gang: Gang) -> None:
    hosts = gang.folder / "hosts"
    hosts.write_text("n2\nn1\nn2\n")
    flag = "--gang-start=20,env=tensorflow"
    env = {"SLURM_HOSTFILE": str(hosts)}
    ran = gang.srun(flag, "-n3", "-m", "arbitrary", "echo", "started", env=env)
    assert (ran.code, ran.out) == (78, "")
    assert "env=tensorflow-TF_CONFIG" in ran.err


def test_nothing_of_it_reaches_a_step_inside(gang: Gang) -> None:
    inner = gang.folder / "inner.sh"
    inner.write_text(
        "[ $SLURM_PROCID != 0 ] || SLURM_GANG_START=off srun --overlap -n1 env\n"
    )
    flag = f"--gang-start=20,env={ALL}"
    ran = gang.srun(flag, "-N2", "-n2", "sh", inner, env={"HOROVOD_CONTROLLER": "mpi"})
    assert ran.code == 0, ran.err
    names = {line.partition("=")[0] for line in ran.out.splitlines()}
    assert "SLURM_PROCID" in names
    left = {
        name
        for name in names
        if name.startswith(("HOROVOD_", "JAX_", "GANGSTART_", "MASTER_", "CROSS_"))
        or name in {"TF_CONFIG", "RANK", "WORLD_SIZE", "LOCAL_SIZE"}
    }
    assert left == {"HOROVOD_CONTROLLER"}
