"""Where the plugin goes, by what Slurm says of itself: its commands are stand-ins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gangstart import stackfile
from gangstart.doctor.tools import Answer, Commands
from gangstart.errors import GangstartError
from gangstart.plugin import place, plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangstart.plugin.place import Place

CONFIG = """\
PluginDir               = /opt/slurm/lib/slurm:/other
PlugStackConfig         = (null)
SLURM_CONF              = /opt/slurm/etc/slurm.conf
SLURM_VERSION           = {version}
SlurmctldParameters     = {parameters}
"""


@dataclass
class Slurm:
    """A Slurm that answers, or does not."""

    version: str = "24.11.5"
    parameters: str = "(null)"
    answers: bool = True
    asked: list[str] = field(default_factory=list)

    def run(
        self,
        argv: Sequence[str],
        seconds: float,  # noqa: ARG002
        env: Mapping[str, str],  # noqa: ARG002
    ) -> Answer:
        """Answer as the command would."""
        self.asked.append(argv[0])
        if not self.answers:
            return Answer(None, err=f"{argv[0]}: No such file or directory")
        if argv[0] == "srun":
            return Answer(0, f"slurm {self.version}\n")
        told = CONFIG.format(version=self.version, parameters=self.parameters)
        return Answer(0, told)


def find(slurm: Slurm, **named: str) -> Place:
    """Look."""
    return place.find(place.Wanted(**named), slurm, {})


def test_slurm_says_where_its_files_are() -> None:
    found = find(Slurm())
    assert found.stack == Path("/opt/slurm/etc/plugstack.conf")
    assert found.libdir == Path("/opt/slurm/lib/slurm")
    assert (found.line, found.named) == ("24.11", stackfile.PLUGIN)


def test_what_is_named_wins() -> None:
    found = find(Slurm(), conf_dir="/etc/x", libdir="/opt/g", release="26.05")
    assert found.stack == Path("/etc/x/plugstack.conf")
    assert (found.line, found.named) == ("26.05", f"/opt/g/{stackfile.PLUGIN}")


def test_an_image_is_not_asked_about_with_the_commands_of_this_machine(
    tmp_path: Path,
) -> None:
    (tmp_path / "etc/slurm").mkdir(parents=True)
    slurm = Slurm()
    found = find(slurm, root=str(tmp_path))
    assert slurm.asked == []
    assert found.libdir == place.LIBDIR
    assert found.manifest == tmp_path / "var/lib/gangstart/plugin.json"


def test_a_slurm_that_does_not_answer_leaves_the_usual_places(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stackfile, "FOLDERS", (str(tmp_path / "none"),))
    with pytest.raises(GangstartError, match="name its folder with --conf-dir"):
        find(Slurm(answers=False))


@pytest.mark.parametrize(
    ("version", "parameters", "inline"),
    [
        ("22.05.8", "(null)", False),
        ("22.05.8", "idle_on_node_suspend,enable_configless", True),
        ("23.02.1", "enable_configless", True),
        ("23.11.0", "enable_configless", False),
        ("26.05.5", "enable_configless", False),
    ],
)
def test_a_configless_slurm_before_23_11_hands_out_no_included_files(
    tmp_path: Path, version: str, parameters: str, inline: object
) -> None:
    found = find(Slurm(version, parameters))
    assert found.inline is inline
    there = replace(found, root=tmp_path)
    stack = there.real(there.stack)
    stack.parent.mkdir(parents=True)
    stack.write_text("optional spank_pyxis.so\n")
    changes = plan.conf_changes(there, "# template\n", {"auto": "gpu"}, {})
    paths = [change.path.name for change in changes if change.needed]
    assert paths == (
        ["plugstack.conf"] if inline else ["gangstart.conf", "plugstack.conf"]
    )
    if inline:
        assert (changes[0].new or b"").decode() == (
            f"optional spank_pyxis.so\noptional {stackfile.PLUGIN} auto=gpu\n"
        )


def test_a_command_that_takes_too_long_is_ended_with_what_it_started() -> None:
    answer = Commands().run(["sh", "-c", "echo early; sleep 600 & wait"], 0.5, {})
    assert answer.code is None
    assert answer.out == "early\n"
    assert answer.problem.startswith("no answer within")


def test_a_command_that_is_not_there_is_an_answer() -> None:
    answer = Commands().run(["no-such-command"], 1, {})
    assert (answer.code, answer.problem) == (
        None,
        "no-such-command: No such file or directory",
    )
