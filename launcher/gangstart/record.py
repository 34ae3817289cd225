"""Frozen records for what every rank loads: dataclasses without their cost.

Each rank pays for what it imports on its way to the program. ``dataclasses``, with the
``inspect`` that it needs and the code that it compiles for each class, cost more CPU
time than all of our other modules together (docs/performance.md).
A type checker takes a subclass for a frozen dataclass; defaults have to be immutable.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, TypeVar

    from typing_extensions import dataclass_transform

    R = TypeVar("R", bound="Record")
else:

    def dataclass_transform(**_: object) -> object:
        """Nothing at run time."""
        return lambda made: made


@dataclass_transform(frozen_default=True)
class Record:
    """Named values that stay as they were made; equal if the values are."""

    _names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Read the names; one with a value in the class need not be given."""
        cls._names = (*cls._names, *cls.__annotations__)

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - any field
        """Take the values in order or by name; raises TypeError as a function does."""
        kind, names = type(self), self._names
        if len(given) > len(names):
            raise TypeError(
                f"{kind.__name__} has {len(names)} values, not {len(given)}"
            )
        made = dict(zip(names, given, strict=False))
        strange = [one for one in named if one in made or one not in names]
        made.update(named)
        lacking = [one for one in names if one not in made and not hasattr(kind, one)]
        if strange or lacking:
            raise TypeError(f"{kind.__name__}: {', '.join(strange + lacking)}?")
        for name in names:
            self.__dict__[name] = made[name] if name in made else getattr(kind, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse it."""
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __delattr__(self, name: str) -> None:
        """Refuse it."""
        raise AttributeError(f"{type(self).__name__}.{name} cannot be removed")

    def __eq__(self, other: object) -> bool:
        """Compare values of the same kind."""
        if not isinstance(other, Record) or type(other) is not type(self):
            return NotImplemented
        return vars(self) == vars(other)

    def __hash__(self) -> int:
        """Hash the values."""
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        """Show all values."""
        shown = (f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({', '.join(shown)})"


def replace(record: R, **changes: Any) -> R:  # noqa: ANN401 - any field
    """The same record with other values."""
    return type(record)(**{**vars(record), **changes})


def plain(value: Any) -> Any:  # noqa: ANN401 - any field
    """A record as a dict, and so all records inside of it; the rest as it is."""
    if isinstance(value, Record):
        return {name: plain(one) for name, one in vars(value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value
