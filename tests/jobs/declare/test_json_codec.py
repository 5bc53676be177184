"""Dataclasses, structs, TypedDicts and JSON values: encoded, decoded, refused by field."""

import datetime as dt
import enum
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar, cast

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ErrorCode
from holdfast.jobs.declare.json_codec import CheckedJsonCodec, JsonCodec, equal, is_pydantic
from holdfast.jobs.declare.validation import ValidationError

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    at: dt.datetime


@dataclass(frozen=True, slots=True)
class Line:
    amount: Decimal
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    number: int
    customer: str = "ann"
    lines: list[Line] = field(default_factory=list)
    at: dt.datetime | None = None
    day: dt.date | None = None
    wait: dt.timedelta | None = None
    key: uuid.UUID | None = None
    body: bytes = b""
    colour: Colour = Colour.RED
    path: Path | None = None
    share: float = 0.0
    by_id: dict[int, str] = field(default_factory=dict)
    parts: frozenset[int] = frozenset()
    sizes: Sequence[int] = field(default_factory=list)
    model: Model | None = None
    extra: Any = None
    anything: object = None


class Point(msgspec.Struct, rename="camel", frozen=True):
    x_axis: int
    y_axis: int = 0


class Options(TypedDict):
    name: str
    size: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str


@dataclass
class Box(Generic[T]):
    content: T


class Cell(Generic[T]):
    content: T


@dataclass
class Tree:
    children: "list[Tree]"


@dataclass
class Positive:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("n must not be negative")


def codec(declared, subject="arguments of invoices.send"):
    return CheckedJsonCodec(declared, subject)


UTC = dt.UTC
FULL = Order(
    number=2**70,
    customer="Zoë",
    lines=[Line(Decimal("1.20"), ("a", "b"))],
    at=dt.datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=UTC),
    day=dt.date(2024, 2, 29),
    wait=dt.timedelta(seconds=1.5),
    key=uuid.UUID(int=5),
    body=b"\x00\xff",
    colour=Colour.RED,
    path=Path("/srv/a.pdf"),
    share=0.1,
    by_id={1: "one"},
    parts=frozenset({1, 2, 3}),
    sizes=[1, 2],
    model=Model(at=dt.datetime(2024, 1, 1, tzinfo=UTC)),
    extra={"deep": [1, None, "x", True, 1.5]},
    anything=[1, "two"],
)


@pytest.mark.parametrize(
    "declared, value",
    [
        (Order, FULL),
        (Order, Order(1)),
        (Point, Point(1, 2)),
        (Options, {"name": "a"}),
        (Options, {"name": "a", "size": 3}),
        (Pair, Pair(1, "x")),
        (Box[int], Box(3)),
        (Tree, Tree([Tree([])])),
        (Line | None, None),
        (list[Line], [Line(Decimal(1))]),
        (dict[str, object], {"a": [1, "b", None]}),
        (object, {"a": 1}),
        (Any, [1, {"b": None}]),
        (None, None),
        (int, 3),
        (Literal["a", "b"], "b"),
        (Path, Path("a/b")),
        (Model | None, Model(at=dt.datetime(2024, 1, 1, tzinfo=UTC))),
    ],
)
def test_decoding_returns_the_encoded_value(declared, value):
    both = codec(declared)
    back = both.decode(both.encode(value))
    assert back == value
    assert type(back) is type(value)


def test_a_subclass_of_path_is_decoded_as_the_declared_type():
    both = codec(PurePosixPath)
    assert both.decode(both.encode(PurePosixPath("a"))) == PurePosixPath("a")


def test_a_tuple_is_accepted_as_a_sequence():
    assert codec(Order).decode(codec(Order).encode(Order(1, sizes=(1, 2)))).sizes == [1, 2]


def test_an_int_is_accepted_as_a_float():
    assert codec(Order).decode(codec(Order).encode(Order(1, share=3))).share == 3.0


@pytest.mark.parametrize(
    "value, where, message",
    [
        (Order("7"), "number", "expected int, got '7'"),
        (Order(True), "number", "expected int, got True"),
        (Order(None), "number", "expected int, got None"),
        (Order(1, customer=b"ann"), "customer", "b'ann' becomes 'YW5u'"),
        (Order(1, customer=dt.date(2024, 1, 1)), "customer", "becomes '2024-01-01'"),
        (Order(1, at="2024-01-01T00:00:00Z"), "at", "'2024-01-01T00:00:00Z' becomes"),
        (Order(1, lines=[Line(Decimal(1)), Line("much")]), "lines[1].amount", "got 'much'"),
        (Order(1, lines=[Line(Decimal(1), ("a", 2))]), "lines[0].tags[1]", "expected str, got 2"),
        (Order(1, share=float("nan")), "share", "expected float, got nan"),
        (Order(1, by_id=cast("Any", {"one": "x"})), "by_id", "got {'one': 'x'}"),
        (Order(1, by_id=cast("Any", {1: 2})), "by_id[...]", "expected str, got {1: 2}"),
        (Order(1, extra={"raw": b"x"}), "extra.raw", "b'x' becomes 'eA=='"),
        (Order(1, extra={1: "x"}), "extra", "{1: 'x'} becomes {'1': 'x'}"),
        (Order(1, anything=[1, float("inf")]), "anything[1]", "inf becomes None"),
        (Order(1, model="x"), "model", "got 'x'"),
        (Order(1, path=3), "path", "got 3"),
        (Order(1, parts=[1, 1]), "parts", "[1, 1] becomes [1]"),
    ],
)
def test_a_field_that_would_be_decoded_differently_is_refused_by_name_and_value(
    value, where, message
):
    with pytest.raises(ValidationError) as caught:
        codec(Order).encode(value)
    assert caught.value.field == where
    assert caught.value.code is ErrorCode.VALIDATION_ERROR
    assert str(caught.value).startswith(f"arguments of invoices.send: {where}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [3, None, "x", Line(Decimal(1)), [Order(1)]])
def test_a_value_of_another_type_is_refused(value):
    with pytest.raises(ValidationError, match="must be a Order, got "):
        codec(Order).encode(value)


def test_an_instance_of_a_subclass_is_refused_since_it_would_lose_its_own_fields():
    @dataclass(frozen=True)
    class Rush(Order):
        hours: int = 1

    with pytest.raises(ValidationError, match="must be a Order"):
        codec(Order).encode(Rush(1))


def test_a_mapping_of_its_fields_is_accepted_for_a_class():
    text = codec(Order).encode({"number": 1, "lines": [{"amount": "2.5"}]})
    assert codec(Order).decode(text) == Order(1, lines=[Line(Decimal("2.5"))])
    assert codec(Point).decode(codec(Point).encode({"xAxis": 1})) == Point(1)


@pytest.mark.parametrize(
    "value, message",
    [
        ({"nmber": 1}, "nmber: Order has no such field, only anything, at, "),
        ({}, "Object missing required field `number`"),
        ({"number": "x"}, "number: expected int, got 'x'"),
    ],
)
def test_an_invalid_mapping_is_refused(value, message):
    with pytest.raises(ValidationError, match=message):
        codec(Order).encode(value)


def test_an_error_of_the_class_itself_is_reported():
    with pytest.raises(ValidationError, match="n must not be negative, got "):
        codec(Positive).encode({"n": -1})


@pytest.mark.parametrize(
    "value",
    [object(), {1, object()}, lambda: None, 1j, "\ud800", [print]],
    ids=["object", "set", "function", "complex", "surrogate", "list"],
)
def test_values_that_are_not_json_are_refused(value):
    with pytest.raises(ValidationError, match="cannot be stored as JSON"):
        codec(Any).encode(value)


def test_reference_cycles_are_refused():
    ring: list[object] = []
    ring.append(ring)
    with pytest.raises(ValidationError, match="cannot be stored as JSON"):
        codec(Any).encode(ring)


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"number":"x"}', "number: expected int, got 'x'"),
        ('{"number":1,"lines":[{"amount":[]}]}', r"lines\[0\].amount: .*got \[\]"),
        ('{"number":', "the stored text is not JSON"),
        ("[" * 100_000, "expected object, got "),
        ('{"number":1,"extra":' + "[" * 100_000, "the stored text is not JSON"),
    ],
)
def test_stored_text_that_is_no_longer_valid_is_refused_by_field(text, message):
    with pytest.raises(ValidationError, match=message):
        codec(Order).decode(text)


@pytest.mark.parametrize(
    "declared",
    [complex, Callable[[int], int], str | dt.datetime, Line | Order, list[range], Cell[int]],
    ids=str,
)
def test_a_type_that_cannot_be_stored_is_refused_when_it_is_declared(declared):
    with pytest.raises(TypeError, match=r"arguments of a.b: .* cannot be stored: "):
        codec(declared, "arguments of a.b")


def test_a_type_with_a_field_that_cannot_be_stored_is_refused():
    @dataclass
    class Holder:
        inner: "dict[str, list[Socket]]"

    class Socket: ...

    Holder.__annotations__["inner"] = dict[str, list[Socket]]
    with pytest.raises(TypeError, match="Socket is not a JSON value, dataclass, TypedDict"):
        codec(Holder)


def test_a_type_with_unresolvable_names_is_refused_when_it_is_declared():
    @dataclass
    class Dangling:
        inner: "NoSuchType"  # noqa: F821 - that is the point

    with pytest.raises(TypeError, match="NoSuchType"):
        codec(Dangling)


def test_results_are_checked_when_decoded_and_not_when_encoded():
    results = JsonCodec(Order, "result of invoices.send")
    assert results.decode(results.encode(FULL)) == FULL
    text = results.encode({"number": "seven"})
    with pytest.raises(ValidationError, match=r"result of invoices\.send: number: expected int"):
        results.decode(text)


def test_a_result_that_is_not_json_is_refused():
    with pytest.raises(ValidationError, match=r"result of a\.b: cannot be stored as JSON"):
        JsonCodec(Any, "result of a.b").encode(object())


def test_a_comparison_that_raises_counts_as_different():
    class Odd:
        __hash__ = None

        def __eq__(self, other):
            raise RuntimeError("no")

    assert not equal(Odd(), Odd())
    assert equal(1, 1.0)


def test_pydantic_models_are_recognised():
    assert is_pydantic(Model)
    assert not is_pydantic(Order)
    assert not is_pydantic(Model | None)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner)
    ),
    max_leaves=20,
)


@given(json_values)
def test_any_json_value_is_decoded_as_it_was(value):
    both = codec(Any)
    assert both.decode(both.encode(value)) == value


def test_keys_that_would_collide_are_refused():
    with pytest.raises(ValidationError, match="would be decoded differently"):
        CheckedJsonCodec(Any, "arguments of x").encode({1: 2, "1": 3})
