"""The private folder of gangstart run: nobody else's; the key goes with the last."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gangstart.run.spool import KEEP, Held, base_of, make
from gangstart.stepkey import read_key

KEY = bytes(range(32))


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(tmp_path)}


def test_all_ranks_of_a_node_find_the_same_folder_and_key(env: dict[str, str]) -> None:
    first, second = make(env, (7, 0), KEY), make(env, (7, 0), KEY)
    assert first == second
    assert first["GANGSTART_RUN"] == "-"
    path = Path(base_of(env)) / first["GANGSTART_SPOOL"]
    assert path.stat().st_mode & 0o777 == 0o700
    assert read_key(path).key not in (KEY, b"")
    assert KEY.hex() not in (path / "meet.key").read_text()


def test_the_last_one_takes_the_key_away(env: dict[str, str]) -> None:
    folder = make(env, (7, 0), KEY)["GANGSTART_SPOOL"]
    first, second = Held(folder), Held(folder)
    first.close()
    path = Path(base_of(env)) / folder
    assert (path / "meet.key").exists()
    second.close()
    assert not (path / "meet.key").exists()


@pytest.mark.parametrize("trouble", ["a link", "open to others", "a file"])
def test_a_folder_that_is_not_ours_alone_is_not_used(
    env: dict[str, str], tmp_path: Path, trouble: str
) -> None:
    base = Path(base_of(env))
    if trouble == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        base.symlink_to(tmp_path / "elsewhere")
    elif trouble == "a file":
        base.write_text("")
    else:
        base.mkdir()
        base.chmod(0o755)
    assert make(env, (7, 0), KEY) == {"GANGSTART_RUN": "-"}


def test_old_runs_go_but_not_one_that_is_in_use(env: dict[str, str]) -> None:
    oldest = make(env, (1, 0), KEY)["GANGSTART_SPOOL"]
    held = Held(oldest)
    os.utime(oldest, (1, 1))
    for job in range(2, KEEP + 10):
        os.utime(make(env, (job, 0), KEY)["GANGSTART_SPOOL"], (job, job))
    names = [path.name for path in Path(base_of(env)).iterdir()]
    assert len(names) <= KEEP + 2
    assert Path(base_of(env)) / oldest in Path(base_of(env)).iterdir()
    held.close()


def test_ranks_that_prune_at_the_same_moment_all_get_the_folder(
    env: dict[str, str],
) -> None:
    own = Path(make(env, (0, 0), KEY)["GANGSTART_SPOOL"])
    for job in range(1, 10 * KEEP):
        own.with_name(f"{job}.0-{job:016x}").mkdir()
    go, gate = os.pipe()
    ranks = []
    for _ in range(8):
        rank = os.fork()
        if rank == 0:
            os.close(gate)
            os.read(go, 1)  # until all are there
            os._exit("GANGSTART_SPOOL" not in make(env, (999, 0), KEY))
        ranks.append(rank)
    os.close(go)
    os.close(gate)

    assert [os.waitpid(rank, 0)[1] for rank in ranks] == [0] * 8
    assert len(list(Path(base_of(env)).iterdir())) <= KEEP + 1
