"""Answers of models: the types they are asked for, and those that cannot be used."""

import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from holdfast.errors import ErrorCode, HoldfastError
from holdfast.jobs.declare.json_codec import is_pydantic

T = TypeVar("T")


class InvalidAnswer(HoldfastError):
    """Report that a provider answered, but not in the form that was asked for.

    It is transient: a model may well do better when it is asked again. A breaker counts it as
    neither success nor failure, since the service itself has answered.

    Attributes:
        answer: the text of the answer; "" where it has none.
    """

    code = ErrorCode.UNWANTED_RESULT

    def __init__(self, problem: str, answer: str = "") -> None:
        super().__init__(problem)
        self.answer = answer


class AnswerType(Generic[T]):
    """A type that a model's answer must have.

    Args:
        declared: a dataclass, a msgspec Struct, a TypedDict or a pydantic model.

    Raises:
        TypeError: it cannot be described to a model.
    """

    def __init__(self, declared: type[T]) -> None:
        self.name = re.sub(r"\W", "_", getattr(declared, "__name__", "answer"))[:64]
        self.json_schema: dict[str, Any]
        self._decode: Callable[[str], T]
        if is_pydantic(declared):
            self._use_pydantic(declared)
        else:
            self._use_msgspec(declared)

    def read(self, text: str) -> T:
        """Return the value that `text` encodes.

        Raises:
            InvalidAnswer: it is not JSON, or not of the type.
        """
        try:
            return self._decode(text)
        except ValueError as error:  # of either library
            problem = " ".join(str(error).split())
            raise InvalidAnswer(f"the answer is not a {self.name}: {problem}", text) from error

    def _use_pydantic(self, declared: type[T]) -> None:
        import pydantic

        adapter = pydantic.TypeAdapter(declared)
        self.json_schema = adapter.json_schema()
        self._decode = adapter.validate_json

    def _use_msgspec(self, declared: type[T]) -> None:
        import msgspec

        schema = msgspec.json.schema(declared)
        reference = schema.pop("$ref", None)
        if reference is not None:
            # Providers want the object itself at the root, not a reference to it.
            schema = {**schema["$defs"][reference.removeprefix("#/$defs/")], **schema}
        self.json_schema = schema
        self._decode = msgspec.json.Decoder(declared).decode
