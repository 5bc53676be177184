"""Types of answers are described to a model, and its answers are checked against them."""

import pickle
from dataclasses import dataclass
from typing import TypedDict

import pydantic
import pytest

from holdfast import Category, categorize
from holdfast.errors import ErrorCode
from holdfast.providers.answers import AnswerType, InvalidAnswer


@dataclass
class Relation:
    source: str
    target: str


@dataclass
class Graph:
    concepts: list[str]
    relations: list[Relation]


class Options(TypedDict):
    name: str


class Model(pydantic.BaseModel):
    name: str


def test_the_schema_of_a_dataclass_has_the_object_at_its_root():
    schema = AnswerType(Graph).json_schema
    assert schema["type"] == "object"
    assert schema["properties"]["concepts"] == {"type": "array", "items": {"type": "string"}}
    assert schema["$defs"]["Relation"]["required"] == ["source", "target"]


@pytest.mark.parametrize("declared", [Options, Model, dict[str, str]])
def test_other_types_have_a_schema_too(declared):
    answer_type = AnswerType(declared)
    assert answer_type.json_schema["type"] == "object"
    assert dict(answer_type.read('{"name": "x"}')) == {"name": "x"}
    assert answer_type.name.isidentifier()


def test_an_answer_of_the_type_is_read():
    text = '{"concepts": ["a"], "relations": [{"source": "a", "target": "b"}]}'
    assert AnswerType(Graph).read(text) == Graph(["a"], [Relation("a", "b")])


@pytest.mark.parametrize("text", ["", "Sure!", "{}", '{"concepts": 1, "relations": []}'])
def test_an_answer_of_another_form_is_refused_with_its_text(text):
    with pytest.raises(InvalidAnswer) as caught:
        AnswerType(Graph).read(text)
    assert caught.value.answer == text


def test_an_invalid_answer_is_transient_and_survives_a_process_border():
    error = pickle.loads(pickle.dumps(InvalidAnswer("no text", "…")))
    assert categorize(error) is Category.TRANSIENT
    assert (str(error), error.answer, error.code) == ("no text", "…", ErrorCode.UNWANTED_RESULT)
