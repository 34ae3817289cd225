"""The commands that the documents show, and how each of them is accounted for."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from gangstart import commandline
from repo import ROOT, text

DOCUMENTS = ("README.md", "docs/admin.md", "docs/user.md", "docs/agents.md")
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^\s*([$#]) (.+)")
#: In a block without prompts, lines that start so are commands.
PLAIN = ("make ", ".venv/bin/gangstart ")
#: A block without commands is what a command printed.
PRINTED = ("gang-start: ", "gangstart.Barrier")
REMARK = re.compile(r"\s{2,}# .*")


class Shown(NamedTuple):
    """One command of a document."""

    document: str
    prompt: str  # "$", "#" or ""
    line: str


class Block(NamedTuple):
    """One fenced block."""

    document: str
    language: str
    body: str

    @property
    def commands(self) -> list[Shown]:
        """What a reader would type."""
        rows = self.body.splitlines()
        found = [m for m in map(PROMPT.match, rows) if m]
        if found:
            return [Shown(self.document, m[1], m[2].strip()) for m in found]
        if all(row.startswith(PLAIN) for row in rows if row):
            plain = (REMARK.sub("", row).strip() for row in rows if row)
            return [Shown(self.document, "", line) for line in plain]
        return []

    @property
    def is_output(self) -> bool:
        """Whether it shows what was printed."""
        return self.body.startswith(PRINTED)

    @property
    def is_script(self) -> bool:
        """Whether it is a script, or a part of one."""
        return self.language == "sh"

    @property
    def is_configuration(self) -> bool:
        """Whether it is an agent's, which tests/agents/test_mcp_documents.py uses."""
        return self.language == "json"

    @property
    def is_program(self) -> bool:
        """Whether it is a part of a Python program, which test_commands.py compiles."""
        return self.language == "python"


def blocks() -> list[Block]:
    """Every fenced block of the documents."""
    return [
        Block(name, match[2], match[3])
        for name in DOCUMENTS
        for match in BLOCK.finditer(text(ROOT / name))
    ]


def commands(*documents: str) -> list[Shown]:
    """Every command of some documents, or of all."""
    wanted = documents or DOCUMENTS
    return [c for b in blocks() if b.document in wanted for c in b.commands]


#: Commands that other tests run, each with the test.
ELSEWHERE = {
    "apt install ./gangstart_0.1.0_amd64.deb ./gangstart-spank_0.1.0_amd64.deb": (
        "tests/install/test_packages.py",
        "test_the_packages_install_work_and_leave_nothing",
    ),
    "pip install gangstart": (
        "tests/docs/test_commands.py",
        "test_the_package_has_the_name_that_pip_is_told",
    ),
    "pip install 'gangstart[mpi]'": (
        "tests/docs/test_commands.py",
        "test_the_package_has_the_name_that_pip_is_told",
    ),
    "pip install 'gangstart[mcp]'": (
        "tests/docs/test_commands.py",
        "test_the_package_has_the_name_that_pip_is_told",
    ),
    "gangstart triage 7877 --kmsg n012=dmesg.n012.txt": (
        "tests/triage/test_byjob.py",
        "test_a_kernel_log_of_a_node_is_read_with_the_job",
    ),
    "clush -w n[1-4] --copy /usr/lib/x86_64-linux-gnu/slurm-wlm/spank_gangstart.so "
    "/usr/lib/x86_64-linux-gnu/slurm-wlm/gangstart-probe": (
        "tests/cluster/test_two_files.py",
        "test_a_compute_node_needs_two_files_and_no_python",
    ),
    "clush -w n[1-4] systemctl restart slurmd": (
        "tests/cluster/test_two_files.py",
        "test_a_compute_node_needs_two_files_and_no_python",
    ),
}
#: First words of what tests/cluster/test_docs.py runs on a private cluster.
ON_CLUSTER = (
    "srun",
    "sbatch",
    "gangstart doctor",
    "gangstart report",
    "gangstart history",
    "gangstart env",
    "gangstart check",
    "gangstart plugin path",
)
#: What tests/docs/test_commands.py runs on a machine in a folder.
ON_MACHINE = ("gangstart plugin install", "gangstart plugin uninstall", "sed -i")
#: What is run below .venv/mpi by tests/cluster/test_docs.py.
UNDER_MPI = ("mpirun",)


def way(shown: Shown) -> str:
    """How a command is accounted for; "" if it is not."""
    line = shown.line.removeprefix(".venv/bin/")
    ways = (
        ("elsewhere", line in ELSEWHERE),
        ("make", line.startswith("make ")),
        ("cluster verb", line.startswith("gangstart cluster ")),
        ("machine", line.startswith(ON_MACHINE)),
        ("cluster", line.startswith(ON_CLUSTER)),
        ("mpi", line.startswith(UNDER_MPI)),
    )
    return next((name for name, fits in ways if fits), "")


def unknown_words(line: str) -> list[str]:
    """Verbs and options of a gangstart command that do not exist."""
    words = shlex.split(line.partition(" | ")[0])
    words = words[words.index("gangstart") + 1 :]
    if "--" in words:
        words = words[: words.index("--")]
    verbs = tuple(commandline.verbs())
    verb = None
    while words and verbs:
        verb = next((one for one in verbs if one.words[-1] == words[0]), None)
        if verb is None:
            return words[:1]
        words, verbs = words[1:], verb.verbs
    known = {name for option in verb.options for name in option.names} if verb else ()
    return [w for w in words if w.startswith("-") and w.partition("=")[0] not in known]
