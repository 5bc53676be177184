"""Pydantic models as arguments: encoded, decoded, refused by field."""

import datetime as dt
from dataclasses import dataclass

import pydantic
import pydantic.dataclasses
import pytest

from holdfast.errors import ErrorCode
from holdfast.jobs.declare.pydantic_codec import PydanticCodec
from holdfast.jobs.declare.validation import ValidationError


class Line(pydantic.BaseModel):
    amount: float


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True)
    number: int = pydantic.Field(alias="orderNumber", ge=1)
    lines: list[Line] = []
    at: dt.datetime | None = None


class Secret(pydantic.BaseModel):
    token: pydantic.SecretStr


class Opaque(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    thing: object


@pydantic.dataclasses.dataclass
class Short:
    n: int


SUBJECT = "arguments of invoices.send"


def test_a_model_is_decoded_as_it_was():
    both = PydanticCodec(Order, SUBJECT)
    order = Order(number=3, lines=[Line(amount=1.5)], at=dt.datetime(2024, 1, 1, tzinfo=dt.UTC))
    assert both.decode(both.encode(order)) == order
    assert '"orderNumber":3' in both.encode(order)


def test_a_pydantic_dataclass_is_decoded_as_it_was():
    both = PydanticCodec(Short, SUBJECT)
    assert both.decode(both.encode(Short(n=3))) == Short(n=3)


def test_a_mapping_of_its_fields_is_accepted():
    both = PydanticCodec(Order, SUBJECT)
    assert both.decode(both.encode({"orderNumber": 4})) == Order(number=4)


@pytest.mark.parametrize(
    "value, where, message",
    [
        ({"orderNumber": "x"}, "orderNumber", "got 'x'"),
        ({"orderNumber": 1, "lines": [{"amount": "y"}]}, "lines[0].amount", "got 'y'"),
        ({"orderNumber": 0}, "orderNumber", "greater than or equal to 1, got 0"),
        (Order.model_construct(number="x"), "orderNumber", "got 'x'"),
    ],
)
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_an_invalid_field_is_refused_by_name_and_value(value, where, message):
    with pytest.raises(ValidationError) as caught:
        PydanticCodec(Order, SUBJECT).encode(value)
    assert caught.value.field == where
    assert caught.value.code is ErrorCode.VALIDATION_ERROR
    assert str(caught.value).startswith(f"{SUBJECT}: {where}: ")
    assert message in str(caught.value)


@dataclass
class NoModel:
    number: int


class Rush(Order):
    hours: int = 1


@pytest.mark.parametrize("value", [3, None, NoModel(1), Rush(orderNumber=1)])
def test_a_value_of_another_type_is_refused(value):
    with pytest.raises(ValidationError, match="must be a Order, got "):
        PydanticCodec(Order, SUBJECT).encode(value)


def test_a_secret_that_would_be_stored_as_asterisks_is_refused():
    with pytest.raises(ValidationError, match="is a field secret, excluded or private") as caught:
        PydanticCodec(Secret, SUBJECT).encode(Secret(token="hunter2"))
    assert "hunter2" not in str(caught.value)


def test_values_that_are_not_json_are_refused():
    with pytest.raises(ValidationError, match="cannot be stored as JSON"):
        PydanticCodec(Opaque, SUBJECT).encode(Opaque(thing=object()))


@pytest.mark.parametrize("text", ['{"orderNumber":"x"}', "{", "null"])
def test_stored_text_that_is_no_longer_valid_is_refused(text):
    with pytest.raises(ValidationError, match=SUBJECT):
        PydanticCodec(Order, SUBJECT).decode(text)
