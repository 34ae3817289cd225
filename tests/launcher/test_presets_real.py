"""The presets against the frameworks themselves, where they install from PyPI.

The tasks are those of a plan for one node; what Slurm's own variables say differs where
it matters, so that a framework that does not take ours is caught.
"""

from __future__ import annotations

import os
import socket

import frameworks
import pytest
from gangstart import core

TASKS = 2

pytestmark = [
    pytest.mark.timeout(180),  # an installation and a run, 60 s each
    pytest.mark.skipif(
        os.environ.get("GANGSTART_REAL_FRAMEWORKS") != "1",
        reason="downloads hundreds of MiB: GANGSTART_REAL_FRAMEWORKS=1 make test",
    ),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def tasks_env(preset: str, **changes: str) -> list[dict[str, str]]:
    """The environment of each task after the start."""
    spec = core.parse_spec(f"env={preset}")
    facts = core.EnvFacts(
        presets=spec.env_presets, master_addr="127.0.0.1", master_port=free_port()
    )
    made = []
    for rank in range(TASKS):
        before = {
            "SLURM_JOB_ID": "7",
            "SLURM_STEP_ID": "1",
            "SLURM_STEP_NODELIST": "nowhere",
            "SLURM_STEP_NUM_NODES": "1",
            "SLURM_STEP_NUM_TASKS": str(TASKS),
            "SLURM_STEP_TASKS_PER_NODE": str(TASKS),
            "SLURM_NTASKS": str(TASKS),
            "SLURM_NTASKS_PER_NODE": str(TASKS),
            "SLURM_NNODES": "1",
            "SLURM_PROCID": str(rank),
            "SLURM_LOCALID": str(rank),
            "SLURM_NODEID": "0",
            "SLURMD_NODENAME": "nowhere",
            **changes,
        }
        plan = core.env_plan(before, facts)
        assert plan.outcome == "inject"
        made.append(plan.apply(before))
    return made


def run_all(code: str, folder: str, envs: list[dict[str, str]]) -> list[str]:
    return frameworks.outputs([frameworks.start(code, folder, env) for env in envs])


TORCH = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([1.0 + dist.get_rank()])
dist.all_reduce(total)
print(dist.get_rank(), dist.get_world_size(), int(total))
dist.destroy_process_group()
"""


def test_torch_meets_by_its_preset() -> None:
    folder = frameworks.path_of("packaging")
    assert run_all(TORCH, folder, tasks_env("torch")) == ["0 2 3", "1 2 3"]


JAX = """
import jax
jax.distributed.initialize()
from jax._src.distributed import global_state as state
print(state.coordinator_address, jax.process_index(), jax.process_count())
"""


def test_jax_without_arguments_takes_our_place_to_meet_not_slurms() -> None:
    folder = frameworks.path_of("", "jax")
    envs = tasks_env("jax", JAX_PLATFORMS="cpu")
    place = envs[0]["JAX_COORDINATOR_ADDRESS"]
    assert run_all(JAX, folder, envs) == [f"{place} 0 2", f"{place} 1 2"]


ACCELERATE = """
import torch
from accelerate import PartialState
from accelerate.utils import gather
state = PartialState(cpu=True)
total = gather(torch.tensor([1 + state.process_index])).sum()
print(state.process_index, state.local_process_index, state.num_processes, int(total))
"""


def test_accelerate_needs_nothing_but_its_preset() -> None:
    needed = ("huggingface_hub", "safetensors", "psutil", "pyyaml", "packaging")
    folder = frameworks.path_of("accelerate", *needed)
    shown = run_all(ACCELERATE, folder, tasks_env("accelerate"))
    assert shown == ["0 0 2 3", "1 1 2 3"]


LIGHTNING = """
import os, torch
from lightning_fabric import Fabric
fabric = Fabric(accelerator="cpu", devices=2, num_nodes=1, strategy="ddp")
fabric.launch()
total = fabric.all_reduce(torch.tensor(1.0 + fabric.global_rank), reduce_op="sum")
with open(f"/proc/self/task/{os.getpid()}/children") as children:
    launched = len(children.read().split())
kind = type(fabric.strategy.cluster_environment).__name__
print(kind, fabric.global_rank, fabric.world_size, int(total), launched)
"""


@pytest.mark.parametrize(
    ("job_name", "kind"),
    [("train", "SLURMEnvironment"), ("interactive", "LightningEnvironment")],
)
def test_lightning_launches_nothing_a_second_time(job_name: str, kind: str) -> None:
    needed = ("lightning-utilities", "fsspec", "packaging")
    folder = frameworks.path_of("lightning-fabric", *needed)
    envs = tasks_env("lightning", SLURM_JOB_NAME=job_name)
    shown = run_all(LIGHTNING, folder, envs)
    assert shown == [f"{kind} 0 2 3 0", f"{kind} 1 2 3 0"]


TENSORFLOW = """
import tensorflow as tf
found = tf.distribute.cluster_resolver.TFConfigClusterResolver()
workers = found.cluster_spec().as_dict()["worker"]
print(found.task_type, found.task_id, len(workers), workers[found.task_id])
"""


def test_tensorflow_reads_its_cluster_from_the_preset() -> None:
    folder = frameworks.path_of("", "tensorflow-cpu")
    envs = tasks_env("tensorflow")
    shown = [line.split() for line in run_all(TENSORFLOW, folder, envs)]
    assert [line[:3] for line in shown] == [["worker", str(r), "2"] for r in (0, 1)]
    assert len({line[3] for line in shown}) == TASKS
