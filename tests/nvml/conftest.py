"""Fake nodes for these tests: two healthy GPUs, driver loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import gangstart
import pytest
from nvml.fakenvml import Node, compiler_is_here, healthy, link, objects

if TYPE_CHECKING:
    from collections.abc import Callable

    NodeMaker = Callable[..., Node]


@pytest.fixture(scope="session")
def fake_objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    if not compiler_is_here():
        pytest.skip("no C compiler to build the fake NVML")
    return objects(tmp_path_factory.mktemp("fake"))


@pytest.fixture
def make_node(fake_objects: list[Path], tmp_path: Path) -> NodeMaker:
    """Return a maker of nodes; ``missing`` names calls that the library lacks."""

    def make(*missing: str) -> Node:
        library = link(fake_objects, tmp_path / "libnvidia-ml.so.1", missing)
        node = Node(tmp_path, library, gpus=[healthy(0x1A), healthy(0xDB)])
        node.driver()
        node.write()
        return node

    return make


@pytest.fixture
def node(make_node: NodeMaker) -> Node:
    return make_node()


@pytest.fixture(scope="session")
def program() -> Path:
    """Return the gangstart-probe of the build that these tests run with."""
    path = Path(gangstart.__file__).parent / "gangstart-probe"
    assert path.exists(), f"{path} is not built: make build"
    return path
