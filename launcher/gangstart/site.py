"""What this machine's Slurm says of itself: its release, and the site's defaults."""

from __future__ import annotations

from gangstart import core, stackfile
from gangstart.errors import GangstartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION_S = 5.0  # it asks nobody; only a sick file system makes it slow


def slurm_version() -> str:
    """The release of this machine's Slurm, such as 22.05.8; "" = it does not say."""
    import subprocess  # noqa: PLC0415 - only rank 0 asks

    try:
        done = subprocess.run(
            ["scontrol", "--version"],  # noqa: S607 - the user's own PATH
            capture_output=True,
            text=True,
            timeout=VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = done.stdout.split()
    return words[-1] if done.returncode == 0 and words else ""


def defaults(env: Mapping[str, str]) -> list[str]:
    """Arguments of our line in plugstack.conf; [] without one.

    Raises GangstartError, naming the file, if one of them is a mistake.
    """
    words = stackfile.words(env)
    try:
        core.parse_spec(arguments=words)
    except GangstartError as error:
        raise GangstartError(
            f"plugstack.conf: {error.message}", exit_code=error.exit_code
        ) from error
    return words
