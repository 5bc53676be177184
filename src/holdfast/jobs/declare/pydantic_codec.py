"""Encode and decode pydantic models and dataclasses; pydantic is imported on first use."""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.jobs.declare.json_codec import equal
from holdfast.jobs.declare.validation import ValidationError, field_path, shown


class PydanticCodec:
    """Encode only values that decode to an equal value."""

    __slots__ = ("_adapter", "_model", "_subject")

    def __init__(self, model: Any, subject: str) -> None:
        import pydantic

        self._model = model
        self._subject = subject
        self._adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(model)

    def encode(self, value: Any) -> str:
        """Return `value`, a model or a mapping of its fields, as JSON text."""
        if type(value) is not self._model:
            if not isinstance(value, Mapping):
                raise ValidationError(
                    self._subject, f"must be a {self._model.__name__}, got {shown(value)}"
                )
            value = self._validate(self._adapter.validate_python, dict(value))
        text = self._dump(value)
        back = self.decode(text)
        if not equal(back, value):
            raise ValidationError(
                self._subject,
                f"would be decoded differently (is a field secret, excluded or private?): "
                f"{shown(value)} becomes {shown(back)}",
            )
        return text

    def decode(self, text: str) -> Any:
        """Return the model that `text` encodes."""
        return self._validate(self._adapter.validate_json, text)

    def _dump(self, value: Any) -> str:
        try:
            return self._adapter.dump_json(value, by_alias=True).decode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ValidationError(
                self._subject, f"cannot be stored as JSON: {error}; got {shown(value)}"
            ) from error

    def _validate(self, validate: Callable[[Any], Any], value: object) -> Any:
        import pydantic

        try:
            return validate(value)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            problem = f"{first['msg']}, got {shown(first['input'])}"
            raise ValidationError(self._subject, problem, field=field_path(first["loc"])) from None
