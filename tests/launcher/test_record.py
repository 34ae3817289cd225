"""Records: what a frozen dataclass would do, as far as it is used."""

from __future__ import annotations

import pytest
from gangstart.record import Record, plain, replace


class Point(Record):
    x: int
    y: int = 2


class Named(Point):
    name: str = ""
    where: tuple[Point, ...] = ()


def test_values_come_in_order_or_by_name_and_defaults_fill_in() -> None:
    assert Point(1) == Point(x=1, y=2)
    assert Point(1, 3) != Point(1)
    assert vars(Point(1)) == {"x": 1, "y": 2}
    assert repr(Named(1, name="a")) == "Named(x=1, y=2, name='a', where=())"
    assert hash(Point(1)) == hash(Point(1, 2))


def test_kinds_with_equal_values_are_not_equal() -> None:
    assert Point(1, 2) != Named(1, 2)
    assert Point(1, 2) != (1, 2)


@pytest.mark.parametrize(
    ("given", "named"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})],
    ids=["one is lacking", "one too many", "one twice", "one unknown"],
)
def test_wrong_values_are_a_type_error(
    given: tuple[int, ...], named: dict[str, int]
) -> None:
    with pytest.raises(TypeError, match="Point"):
        Point(*given, **named)


def test_nothing_can_be_changed() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match=r"Point\.x"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match=r"Point\.x"):
        del point.x
    assert replace(point, x=5) == Point(5, 2)
    assert point == Point(1)


def test_plain_reaches_records_inside() -> None:
    assert plain(Named(1, where=(Point(3),))) == {
        "x": 1, "y": 2, "name": "", "where": [{"x": 3, "y": 2}],
    }  # fmt: skip
