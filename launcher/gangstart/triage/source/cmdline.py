"""What a command line says of files: options of srun and sbatch, and of torchrun. Pure.

slurmdbd keeps a step's command line in one text, without the quotes of the shell. So
where Slurm's own options end has to be found: at the first word that neither is an
option nor belongs to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LINE_MOST = 1 << 16
#: One-letter options of srun and sbatch that take a value (srun(1), sbatch(1)).
VALUED = frozenset("AaBbCcDdeGiJLMmNnopPqrSTtWwx")
#: Long options that take none, or only one behind "=".
FLAGS = frozenset(
    {
        "--compress",
        "--contiguous",
        "--disable-status",
        "--exact",
        "--exclusive",
        "--gang-start",
        "--help",
        "--hold",
        "--immediate",
        "--interactive",
        "--kill-on-bad-exit",
        "--label",
        "--multi-prog",
        "--nice",
        "--no-allocate",
        "--no-kill",
        "--no-requeue",
        "--overcommit",
        "--overlap",
        "--oversubscribe",
        "--parsable",
        "--preserve-env",
        "--propagate",
        "--pty",
        "--quiet",
        "--reboot",
        "--requeue",
        "--spread-job",
        "--test-only",
        "--unbuffered",
        "--usage",
        "--use-min-nodes",
        "--verbose",
        "--version",
        "--wait-all-nodes",
        "--whole",
        "--x11",
    }
)


def split(line: str) -> list[str]:
    """Words of a command line; those with spaces in them have come apart."""
    return line[:LINE_MOST].split()


def own(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options of srun or sbatch as (spelling, value), without the command's own.

    Of a heterogeneous line it is those of the first component.
    """
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word in {"--", ":"} or not word.startswith("-") or word == "-":
            return
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            takes_next = not equals and name not in FLAGS and bool(rest)
            yield name, rest.pop(0) if takes_next else value
        else:
            letter, value = word[:2], word[2:]
            takes_next = letter[1] in VALUED and not value and bool(rest)
            yield letter, rest.pop(0) if takes_next else value


def slurm_options(words: Sequence[str], names: Mapping[str, str]) -> dict[str, str]:
    """Values of some options of srun or sbatch; `names` maps spellings to keys."""
    return {names[name]: value for name, value in own(words) if name in names}


def program_options(words: Sequence[str], names: Mapping[str, str]) -> dict[str, str]:
    """Values of some long options anywhere in a line: ``--log-dir X`` and ``=X``."""
    found: dict[str, str] = {}
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name not in names:
            continue
        following = words[index + 1] if index + 1 < len(words) else ""
        found[names[name]] = value if equals else following
    return found
