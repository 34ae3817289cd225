"""gangstart triage JOB as a user types it, beside the real Slurm with accounting."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from cluster.conftest import plugin, why_not
from gangstart.cluster import Cluster, Spec, daemons
from triage.source import accounting
from triage.source.accounting import Accounting
from triage.source.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
USER = "games"
TRAIN = """import os
rank = int(os.environ["SLURM_PROCID"])
if rank == 2:
    raise KeyError("learning_rate")
open(os.environ["WAITS"]).read()
"""
SCRIPTS = {
    "python": "mkfifo {dir}/waits; export WAITS={dir}/waits\n"
    "srun -N2 -n4 -K --label --gang-start=60 {python} {dir}/train.py\n",
    "limit": "echo step 1; exec sleep 300\n",
    "cancelled": "echo step 1; exec sleep 300\n",
}


class Site:
    """A cluster with accounting, and jobs that failed each in its own way."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        """Write the scripts."""
        self.cluster, self.folder = cluster, folder
        self.work = Workload(cluster, folder, user=USER)
        (folder / "train.py").write_text(TRAIN)
        for name, body in SCRIPTS.items():
            text = body.replace("{dir}", str(folder)).replace("{python}", PYTHON)
            (folder / f"{name}.sh").write_text(f"#!/bin/sh\n{text}")

    def triage(self, *argv: str, path: str = "", code: int = 0) -> tuple[str, str]:
        """Type it on the head as root, who may see every job."""
        env = daemons.environment(self.cluster.spec)
        env |= {"PYTHONPATH": os.pathsep.join(sys.path)}
        if path:
            env["PATH"] = f"{path}{os.pathsep}{env.get('PATH', os.defpath)}"
        command = [sys.executable, "-m", "gangstart", "triage", *argv]
        done = self.cluster.run(command, env=env)
        assert done.returncode == code, done.stderr
        return done.stdout, done.stderr

    def answer(self, name: str, *argv: str, path: str = "") -> dict[str, Any]:
        """Its answer about one of the jobs."""
        given = (str(self.work.ids[name]), "--json", *argv)
        out, _ = self.triage(*given, path=path)
        told: dict[str, Any] = json.loads(out)
        return told

    def kept(self, name: str, state: str) -> bool:
        """Whether the accounting has heard of the end."""
        argv = ("sacct", "-nX", "-o", "State", "-j", str(self.work.ids[name]))
        return self.work.run(*argv, user="root").strip().startswith(state)


PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    reason = why_not() or accounting.missing()
    if reason:
        pytest.skip(reason)
    lines = ("MinJobAge=3600", "KillWait=2", "OverTimeLimit=0")
    cluster = Cluster.up(
        Spec(name=f"why-{os.getpid()}", slurm_lines=lines, plugin=plugin())
    )
    servers = Accounting(cluster)
    try:
        servers.start()
        folder = cluster.directory / "shared" / "why"
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        yield Site(cluster, folder)
    finally:
        servers.stop()
        cluster.down()


def failed(site: Site, name: str, *options: str, state: str = "FAILED") -> None:
    """Run one of the jobs to its end."""
    site.work.submit(name, "--wait", "-N2", *options)
    accounting.until(lambda: site.kept(name, state), f"{name} in the accounting")


def test_a_traceback_on_rank_2(site: Site) -> None:
    failed(site, "python", "-n4")

    told = site.answer("python")

    assert (told["root_cause"], told["rank"]) == ("APP_EXCEPTION", 2), told
    assert told["node"] in {"n1", "n2"}
    places = {str(one["place"]["source"]) for one in told["evidence"]}
    assert f"{site.folder}/slurm-{site.work.ids['python']}.out" in places
    used = {one["name"] for one in told["sources"] if one["outcome"] == "used"}
    assert {"logs", "job files", "archive"} <= used, told["sources"]


def test_an_accounting_that_hangs_costs_no_answer(site: Site) -> None:
    folder = site.folder / "bin"
    folder.mkdir()
    (folder / "sacct").write_text("#!/bin/sh\nexec sleep 600\n")
    (folder / "sacct").chmod(0o755)

    told = site.answer("python", "--deadline", "10", path=str(folder))

    assert (told["root_cause"], told["rank"]) == ("APP_EXCEPTION", 2)
    asked = [one for one in told["sources"] if one["name"].startswith("sacct")]
    assert {one["outcome"] for one in asked} == {"unreachable"}
    assert any("did not answer" in one["detail"] for one in asked)


def test_a_job_that_was_cancelled(site: Site) -> None:
    site.work.submit("cancelled", "-N2")
    site.work.wait("cancelled", ["RUNNING"])
    running = site.answer("cancelled")
    site.work.run("scancel", str(site.work.ids["cancelled"]))
    accounting.until(lambda: site.kept("cancelled", "CANCELLED"), "the end")

    assert running["root_cause"] == "NO_FAILURE"
    assert site.answer("cancelled")["root_cause"] == "USER_CANCEL"


def test_a_job_that_nobody_knows(site: Site) -> None:
    _, err = site.triage("99999", code=1)

    assert err.startswith("gangstart: triage: nobody knows of a job 99999 (")


def test_a_time_limit(site: Site) -> None:
    site.work.submit("limit", "-N1", "--time=1")
    # Slurm looks at limits only now and then.
    accounting.until(lambda: site.kept("limit", "TIMEOUT"), "the limit", 200)

    assert site.answer("limit")["root_cause"] == "TIME_LIMIT"
