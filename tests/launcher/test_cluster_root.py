"""Another root for a private cluster: what is refused, and what the nodes will see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gangstart.cluster import Spec, daemons, lifecycle, newroot
from gangstart.errors import GangstartError


def refused(spec: Spec) -> str:
    """The sentence that says why."""
    with pytest.raises(GangstartError) as caught:
        lifecycle.rooted(spec)
    return caught.value.message


def test_a_root_that_is_no_folder_is_refused_with_what_makes_one() -> None:
    said = refused(Spec(root="/nowhere/at/all"))
    assert "--root /nowhere/at/all is not a folder" in said
    assert "make roots" in said


@pytest.mark.parametrize("root", ["/proc/self/x", "/var/a:b", "/var/a,b", "/tmp/x"])  # noqa: S108  names
def test_a_root_that_mount_options_or_nodes_cannot_take_is_refused(root: str) -> None:
    assert "--root" in refused(Spec(root=root))


def test_a_path_to_bind_has_to_exist() -> None:
    assert "--bind /nowhere is not there" in refused(
        Spec(root="/usr", binds=("/nowhere",))
    )


def test_the_nodes_see_python_and_this_package_and_home() -> None:
    shown = lifecycle.rooted(Spec(root="/usr")).binds
    package = Path(newroot.__file__)
    assert any(package.is_relative_to(path) for path in shown)
    assert os.environ["HOME"] in shown


def test_what_lies_below_something_shown_is_not_mounted_twice() -> None:
    assert newroot.outermost(["/a/b", "/a", "/ab", "/c/d", "/a/b/c"]) == [
        "/a",
        "/ab",
        "/c/d",
    ]


def test_programs_of_a_root_are_named_as_seen_in_it(tmp_path: Path) -> None:
    for folder in ("usr/sbin", "usr/bin"):
        (tmp_path / folder).mkdir(parents=True)
    for tool in daemons.TOOLS:
        # What only the root has: an absolute link is no broken one there.
        (tmp_path / "usr/bin" / tool).symlink_to(f"/etc/alternatives/{tool}")
    found = daemons.find_tools("/nowhere", str(tmp_path))
    assert found["slurmd"] == "/usr/bin/slurmd"


def test_a_root_without_slurm_names_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(GangstartError, match=r"slurmctld, slurmd.* not found in "):
        daemons.find_tools("/usr/bin", str(tmp_path))
