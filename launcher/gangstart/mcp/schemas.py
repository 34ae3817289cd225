"""Schemas of what tools take and give: those of docs/, with what they refer to."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

    from gangstart.triage.model import Json

SAID = 200
NUMBERS = 10**10  # of jobs
CHECK = "check.schema.json"


def stored(name: str) -> Json:
    """One schema as it is in docs/NAME.schema.json."""
    file = resources.files("gangstart.mcp") / "schema" / f"{name}.json"
    made: Json = json.loads(file.read_text(encoding="utf-8"))
    return made


@lru_cache(maxsize=16)
def output(name: str) -> Json:
    """A schema on its own: what it takes over from the checks' is in it."""
    made = stored(name)
    if CHECK not in json.dumps(made):
        return made
    checks = stored("check")
    defs = checks["$defs"] | {"event": {"oneOf": checks["oneOf"]}}
    return {key: local(value) for key, value in (made | {"$defs": defs}).items()}


def local(part: Any) -> Any:  # noqa: ANN401  JSON
    """References to the checks' schema as references inside of this one."""
    if isinstance(part, list):
        return [local(one) for one in part]
    if not isinstance(part, dict):
        return part
    made = {key: local(value) for key, value in part.items()}
    to = made.get("$ref", "")
    if isinstance(to, str) and to.startswith(CHECK):
        made["$ref"] = to.removeprefix(CHECK) or "#/$defs/event"
    return made


@lru_cache(maxsize=16)
def validator(name: str) -> Draft202012Validator:
    """What tells whether an answer follows its schema."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - comes with the SDK

    return Draft202012Validator(output(name))


def is_check(told: object) -> bool:
    """Whether a record is one of the checks'."""
    return validator("check").is_valid(told)


def take(tool: str, schema: Json, given: Mapping[str, Any]) -> Json:
    """Arguments that fit a tool's schema; null is none, a job's number a text.

    Raises:
        GangstartError: they do not fit; says which and why.

    """
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - comes with the SDK
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    made = {key: value for key, value in given.items() if value is not None}
    job = made.get("job")
    if type(job) is int and 0 <= job < NUMBERS:
        made["job"] = str(job)
    for name, value in made.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise GangstartError(f"{tool}: {name}: {value} is no number", exit_code=2)
    error = best_match(Draft202012Validator(schema).iter_errors(made))
    if error is not None:
        raise GangstartError(f"{tool}: {sentence(error)}", exit_code=2)
    return made


def sentence(error: ValidationError) -> str:
    """What does not fit, and where."""
    where = "".join(f"{part}: " for part in error.absolute_path)
    said = " ".join(error.message.split())
    return where + (said if len(said) <= SAID else f"{said[:SAID]}…")


def follow(name: str, told: Json) -> None:
    """Refuse an answer that does not follow its schema.

    Raises:
        GangstartError: it does not: records of another version, or a mistake of ours.

    """
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - comes with the SDK

    error = best_match(validator(name).iter_errors(told))
    if error is not None:
        raise GangstartError(
            f"what was found does not follow docs/{name}.schema.json (records of "
            f"another version?): {sentence(error)}"
        )


def printable(told: Json) -> Json:
    """The same as a reader gets it, without halves of characters: no UTF-8 has them."""
    text = json.dumps(told, ensure_ascii=False)
    made: Json = json.loads(text.encode("utf-8", "replace"))
    return made
