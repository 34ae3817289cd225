"""The presets against the frameworks themselves, where they install from PyPI.

The tasks are those of a plan for one node; what Slurm's own variables say differs where
it matters, so that a framework that does not take ours is caught.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

import frameworks
import pytest
from gangstart import core

if TYPE_CHECKING:
    from pathlib import Path

TASKS = 2

pytestmark = pytest.mark.timeout(180)  # imports of many seconds on a busy machine


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
        assert plan.outcome == "inject", plan
        made.append(plan.apply(before))
    return made


def run_all(
    code: str, python: str, folder: Path, envs: list[dict[str, str]]
) -> list[str]:
    command = [python, "-c", code]
    return frameworks.outputs([frameworks.start(command, folder, env) for env in envs])


TORCH = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([1.0 + dist.get_rank()])
dist.all_reduce(total)
print(dist.get_rank(), dist.get_world_size(), int(total))
dist.destroy_process_group()
"""


def test_torch_meets_by_its_preset(tmp_path: Path) -> None:
    python = frameworks.python_of("torch")
    shown = run_all(TORCH, python, tmp_path, tasks_env("torch"))
    assert shown == ["0 2 3", "1 2 3"]


TRAINED = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(4, 2))
model(torch.ones(3, 4) * (1 + dist.get_rank())).sum().backward()
print(dist.get_rank(), model.module.weight.grad.unique().tolist())
dist.destroy_process_group()
"""


def test_ddp_averages_the_gradients_of_both_ranks(tmp_path: Path) -> None:
    python = frameworks.python_of("torch")
    shown = run_all(TRAINED, python, tmp_path, tasks_env("torch"))
    assert shown == ["0 [4.5]", "1 [4.5]"]


SHARDED = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = torch.nn.Linear(4, 2)
fully_shard(model, mesh=mesh)
model(torch.ones(3, 4) * (1 + dist.get_rank())).sum().backward()
mine = model.weight.grad.to_local()
print(dist.get_rank(), list(mine.shape), mine.unique().tolist())
dist.destroy_process_group()
"""


def test_fsdp_shards_the_model_between_both_ranks(tmp_path: Path) -> None:
    python = frameworks.python_of("torch")
    shown = run_all(SHARDED, python, tmp_path, tasks_env("torch"))
    assert shown == ["0 [1, 4] [4.5]", "1 [1, 4] [4.5]"]


JAX = """
import jax
jax.distributed.initialize()
from jax._src.distributed import global_state as state
print(state.coordinator_address, jax.process_index(), jax.process_count())
"""


def test_jax_without_arguments_takes_our_place_to_meet_not_slurms(
    tmp_path: Path,
) -> None:
    python = frameworks.python_of("jax")
    envs = tasks_env("jax", JAX_PLATFORMS="cpu")
    place = envs[0]["JAX_COORDINATOR_ADDRESS"]
    shown = run_all(JAX, python, tmp_path, envs)
    assert shown == [f"{place} 0 2", f"{place} 1 2"]


ACCELERATE = """
import torch
from accelerate import PartialState
from accelerate.utils import gather
state = PartialState(cpu=True)
total = gather(torch.tensor([1 + state.process_index])).sum()
print(state.process_index, state.local_process_index, state.num_processes, int(total))
"""


def test_accelerate_needs_nothing_but_its_preset(tmp_path: Path) -> None:
    python = frameworks.python_of("accelerate")
    shown = run_all(ACCELERATE, python, tmp_path, tasks_env("accelerate"))
    assert shown == ["0 0 2 3", "1 1 2 3"]


#: It asks mpi4py, where that is, for an MPI; Open MPI's orted is no second launch.
LIGHTNING = """
import os, torch
from lightning_fabric import Fabric
fabric = Fabric(accelerator="cpu", devices=2, num_nodes=1, strategy="ddp")
fabric.launch()
total = fabric.all_reduce(torch.tensor(1.0 + fabric.global_rank), reduce_op="sum")
with open(f"/proc/self/task/{os.getpid()}/children") as children:
    lines = [open(f"/proc/{pid}/cmdline").read() for pid in children.read().split()]
launched = sum("python" in line.split("\\0")[0] for line in lines)
kind = type(fabric.strategy.cluster_environment).__name__
print(kind, fabric.global_rank, fabric.world_size, int(total), launched)
"""


@pytest.mark.parametrize(
    ("job_name", "kind"),
    [("train", "SLURMEnvironment"), ("interactive", "LightningEnvironment")],
)
def test_lightning_launches_nothing_a_second_time(
    tmp_path: Path, job_name: str, kind: str
) -> None:
    python = frameworks.python_of("lightning_fabric")
    envs = tasks_env("lightning", SLURM_JOB_NAME=job_name)
    shown = run_all(LIGHTNING, python, tmp_path, envs)
    assert shown == [f"{kind} 0 2 3 0", f"{kind} 1 2 3 0"]


DEEPSPEED = """
import deepspeed, torch, torch.distributed as dist
deepspeed.init_distributed(dist_backend="gloo", verbose=False)
total = torch.tensor([1.0 + dist.get_rank()])
deepspeed.comm.all_reduce(total)
print(dist.get_rank(), dist.get_world_size(), int(total))
dist.destroy_process_group()
"""


def test_deepspeed_needs_no_mpi_to_find_the_others(tmp_path: Path) -> None:
    python = frameworks.python_of("deepspeed")
    envs = tasks_env("deepspeed", DS_ACCELERATOR="cpu")
    assert run_all(DEEPSPEED, python, tmp_path, envs) == ["0 2 3", "1 2 3"]


TENSORFLOW = """
import tensorflow as tf
found = tf.distribute.cluster_resolver.TFConfigClusterResolver()
workers = found.cluster_spec().as_dict()["worker"]
print(found.task_type, found.task_id, len(workers), workers[found.task_id])
"""


@pytest.mark.skipif(
    os.environ.get("GANGSTART_REAL_FRAMEWORKS") != "1",
    reason="TensorFlow is 1.5 GB to install: GANGSTART_REAL_FRAMEWORKS=1 make test",
)
def test_tensorflow_reads_its_cluster_from_the_preset(tmp_path: Path) -> None:
    found = frameworks.path_of("tensorflow-cpu")
    envs = [{**env, "PYTHONPATH": found} for env in tasks_env("tensorflow")]
    said = run_all(TENSORFLOW, sys.executable, tmp_path, envs)
    shown = [line.split() for line in said]
    assert [line[:3] for line in shown] == [["worker", str(r), "2"] for r in (0, 1)]
    assert len({line[3] for line in shown}) == TASKS
