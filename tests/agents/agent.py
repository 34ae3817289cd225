"""A real MCP client beside the real server, and a Slurm of three small scripts."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio.from_thread import start_blocking_portal
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, ListToolsResult, TextContent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from anyio.from_thread import BlockingPortal

NOW = int(time.time())
JOB = """JobId={number}{more} JobName=train
   UserId={user}({uid}) GroupId=root(0) MCS_label=N/A
   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=1:0
   RunTime=00:01:30 TimeLimit=UNLIMITED TimeMin=N/A
   SubmitTime={begun} EligibleTime={begun}
   StartTime={begun} EndTime={ended} Deadline=N/A
   NodeList=n[1-2]
   NumNodes=2 NumCPUs=4 NumTasks=4 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   Command={folder}/train.sh
   WorkDir={folder}
   StdErr={out}
   StdIn=/dev/null
   StdOut={out}

"""
SCONTROL = """#!/bin/sh
case "$*" in
-V) echo slurm-wlm 22.05.8 ;;
"show job "*) cat {folder}/jobs/"$3" 2>/dev/null && exit
    echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1 ;;
"show node "*) printf 'NodeName=n1 Arch=x86_64\\n   State=IDLE+DRAIN\\n'
    printf '   Reason=bad GPU [root@2026-05-01T00:00:00]\\n\\n' ;;
*) exit 1 ;;
esac
"""
SQUEUE = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = -j ] && job=$2; shift; done
cat {folder}/uids/"$job"
"""
SACCT = """#!/bin/sh
[ "$1" = -V ] && echo slurm 22.05.8 && exit
[ -e {folder}/hang ] && echo $$ >>{folder}/hanging && exec sleep 600
exit 0
"""
LOG = """2026-05-11 09:00:01 [INFO] iter 10
[rank1]: Traceback (most recent call last):
[rank1]:   File "/users/u/train.py", line 42, in step
[rank1]: KeyError: 'learning_rate'
srun: error: n2: task 1: Exited with exit code 1
"""


@dataclass
class Site:
    """A machine with jobs, logs, an archive and a spool of its own."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the folders and the commands."""
        for name in ("bin", "jobs", "uids", "logs", "archive", "run", "state"):
            (self.folder / name).mkdir()
        for name, text in (
            ("scontrol", SCONTROL),
            ("squeue", SQUEUE),
            ("sacct", SACCT),
        ):
            path = self.folder / "bin" / name
            path.write_text(text.replace("{folder}", str(self.folder)))
            path.chmod(0o755)
        self.env = {
            "PATH": f"{self.folder}/bin:{os.defpath}",
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "GANGSTART_PROMETHEUS": "",
        }

    @property
    def options(self) -> list[str]:
        """Where the server looks."""
        return [
            *("--archive", str(self.folder / "archive")),
            *("--spool", str(self.folder / "run")),
        ]

    def job(
        self,
        name: str,
        log: bytes | str = LOG,
        *,
        uid: int | None = None,
        more: str = "",
        out: str = "",
    ) -> Path:
        """Make a job and its log."""
        number = name.partition("_")[0].partition("+")[0]
        path = Path(out or f"{self.folder}/logs/{name}.out")
        if not out:
            path.write_bytes(log.encode() if isinstance(log, str) else log)
        whose = os.geteuid() if uid is None else uid
        told = JOB.format(
            number=number,
            more=more,
            user="u",
            uid=whose,
            begun=NOW - 100,
            ended=NOW - 10,
            folder=self.folder,
            out=path,
        )
        (self.folder / "jobs" / name).write_text(told)
        (self.folder / "uids" / number).write_text(f"{number} {whose}\n")
        return path


@dataclass
class Agent:
    """A client that has said hello."""

    session: ClientSession
    portal: BlockingPortal

    def tools(self) -> ListToolsResult:
        """What the server offers."""
        return self.portal.call(self.session.list_tools)

    def call(self, name: str, **given: Any) -> CallToolResult:  # noqa: ANN401  JSON
        """Call a tool."""
        done = self.portal.call(self.session.call_tool, name, given)
        assert isinstance(done, CallToolResult)
        return done

    def told(self, name: str, **given: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
        """The answer of a call that is fine; the text says the same."""
        done = self.call(name, **given)
        assert not done.is_error, done.content
        (text, *_) = done.content
        assert isinstance(text, TextContent)
        made: dict[str, Any] = done.structured_content
        assert json.loads(text.text) == made
        return made

    def refused(self, name: str, **given: Any) -> str:  # noqa: ANN401  JSON
        """The sentence of a call that fails."""
        done = self.call(name, **given)
        assert done.is_error, done.structured_content
        (text,) = done.content
        assert isinstance(text, TextContent)
        assert "Traceback" not in text.text
        assert "\n" not in text.text
        return text.text


def command(*argv: str) -> list[str]:
    """How the server is started."""
    return [sys.executable, "-m", "gangstart", "mcp", *argv]


@contextlib.asynccontextmanager
async def session(
    argv: list[str], env: Mapping[str, str], errors: Path
) -> AsyncIterator[ClientSession]:
    """Start the server as a client does, and say hello."""
    server = StdioServerParameters(command=argv[0], args=argv[1:], env=dict(env))
    with errors.open("w") as log:
        async with (
            stdio_client(server, log) as streams,
            ClientSession(*streams) as made,
        ):
            await made.initialize()
            yield made


@contextlib.contextmanager
def agent(site: Site, *options: str, before: Sequence[str] = ()) -> Iterator[Agent]:
    """An agent at a site; the server says nothing on stderr."""
    errors = site.folder / "stderr"
    argv = [*before, *command(*site.options, *options)]
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(session(argv, site.env, errors)) as made,
    ):
        yield Agent(made, portal)
    assert errors.read_text() == ""
