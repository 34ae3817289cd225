"""Data-parallel training on real data, started by nothing but the environment.

A small convolutional network learns scikit-learn's handwritten digits with PyTorch
DistributedDataParallel: nccl where every task has a GPU of its own, gloo elsewhere.
Who I am and where rank 0 is comes only from RANK, LOCAL_RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT, which ``srun --gang-start`` (or torchrun) puts there.

    srun -N4 --ntasks-per-node=2 --gang-start python examples/train_ddp.py
    torchrun --nproc_per_node=2 examples/train_ddp.py

At the end the ranks compare their weights: a run that lost an update, or whose
tasks did not all train together, fails here with a sentence and exit code 1.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

NEEDED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
TEST_SAMPLES = 360  # of 1797: the last fifth, which scikit-learn keeps in random order
GLOBAL_BATCH = 128  # shared out among the ranks, so more ranks are not more work


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train a small digit classifier with PyTorch DDP."
    )
    parser.add_argument("--epochs", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=7, help="default: %(default)s")
    parser.add_argument(
        "--wait",
        type=int,
        default=60,
        metavar="SECONDS",
        help="for rank 0 to answer, and for each collective (default: %(default)s)",
    )
    options = parser.parse_args()
    for name in ("epochs", "wait"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: must be 1 or more")
    return options


def require_environment() -> None:
    """End with one sentence if the start did not say who this task is."""
    missing = [name for name in NEEDED if not os.environ.get(name)]
    if missing:
        sys.exit(
            f"train_ddp.py: {', '.join(missing)} not set: start me with "
            "'srun -N2 --ntasks-per-node=2 --gang-start python examples/train_ddp.py' "
            "or 'torchrun --nproc_per_node=2 examples/train_ddp.py'."
        )


def pick_device() -> torch.device:
    """Take a GPU of this task's own if the node has any, else the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    # Slurm may show a task every GPU of the node or only its own.
    index = int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def join(device: torch.device, wait: timedelta) -> None:
    """Become part of the process group; the environment says which part."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    try:
        dist.init_process_group(backend, init_method="env://", timeout=wait)
    except (dist.DistError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        sys.exit(
            f"train_ddp.py: rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} "
            f"did not join {backend} at {os.environ['MASTER_ADDR']}:"
            f"{os.environ['MASTER_PORT']}: {reason}"
        )


def step() -> str:
    """This run's name in Slurm, for whoever wants its report; empty elsewhere."""
    job, number = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_STEP_ID")
    return f"step {job}.{number}: " if job and number else ""


def digits(device: torch.device) -> tuple[TensorDataset, TensorDataset]:
    """Load the digits as (train, test), split the same way on every rank."""
    bunch = load_digits()
    images = torch.tensor(bunch.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(bunch.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images, labels = images[order].to(device), labels[order].to(device)
    return (
        TensorDataset(images[TEST_SAMPLES:], labels[TEST_SAMPLES:]),
        TensorDataset(images[:TEST_SAMPLES], labels[:TEST_SAMPLES]),
    )


def network() -> nn.Module:
    """Two convolutions and a classifier: 6,090 weights for 8x8 pixels."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def train_epoch(
    model: nn.Module,
    loader: DataLoader[tuple[torch.Tensor, ...]],
    adam: torch.optim.Adam,
) -> float:
    """One pass over this rank's share; the mean loss over all ranks."""
    model.train()
    total = torch.zeros(2, device=next(model.parameters()).device)
    for images, labels in loader:
        adam.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()  # DDP averages the gradients of all ranks in here
        adam.step()
        total += torch.stack(
            [loss.detach() * len(labels), total.new_tensor(len(labels))]
        )
    dist.all_reduce(total)
    return float(total[0] / total[1])


@torch.no_grad()
def accuracy(model: nn.Module, test: TensorDataset) -> float:
    """Share of the test samples that the model names right."""
    model.eval()
    images, labels = test.tensors
    return float((model(images).argmax(1) == labels).float().mean())


def checksum(model: nn.Module) -> bytes:
    """SHA-256 over every weight, bit for bit."""
    digest = hashlib.sha256()
    for name, weight in model.state_dict().items():
        digest.update(name.encode())
        digest.update(weight.cpu().contiguous().numpy().tobytes())
    return digest.digest()


def disagreeing(mine: bytes, device: torch.device) -> list[int]:
    """Ranks whose weights differ from rank 0's; the same answer on every rank."""
    own = torch.tensor(list(mine), dtype=torch.uint8, device=device)
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own)
    return [
        rank for rank, other in enumerate(every) if not torch.equal(other, every[0])
    ]


def train(options: argparse.Namespace, device: torch.device) -> nn.Module:
    """Train for the epochs asked for; rank 0 tells how it goes."""
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(options.seed)
    training, test = digits(device)
    model = network().to(device)
    replica = DistributedDataParallel(
        model, device_ids=[device.index] if device.type == "cuda" else None
    )
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(
        training, seed=options.seed
    )
    loader = DataLoader(training, max(1, GLOBAL_BATCH // world), sampler=sampler)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(1, options.epochs + 1):
        sampler.set_epoch(epoch)  # else every epoch has the same order
        loss = train_epoch(replica, loader, adam)
        if rank == 0:
            score = accuracy(model, test)
            print(
                f"epoch {epoch:2}/{options.epochs}  loss {loss:.4f}  "
                f"test accuracy {score:.3f}",
                flush=True,
            )
    return model


def main() -> None:
    """Join, train, and prove that all ranks ended with the same weights."""
    options = arguments()
    require_environment()
    torch.set_num_threads(1)  # several tasks share a node's cores
    started = time.monotonic()
    device = pick_device()
    join(device, timedelta(seconds=options.wait))
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        print(
            f"{step()}{world} ranks, {dist.get_backend()} on {device.type}", flush=True
        )
    mine = checksum(model := train(options, device))
    odd = disagreeing(mine, device)
    dist.barrier()  # nobody takes its connections down while another still uses them
    dist.destroy_process_group()
    if odd:
        listed = ", ".join(map(str, odd))
        sys.exit(f"train_ddp.py: rank {listed} ended with other weights than rank 0.")
    if rank == 0:
        weights = sum(weight.numel() for weight in model.parameters())
        print(
            f"all {world} ranks agree: sha256 {mine.hex()} "
            f"({weights} weights, {time.monotonic() - started:.1f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
