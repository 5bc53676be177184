"""Encode and decode dataclasses, structs, TypedDicts, named tuples and JSON values with msgspec.

msgspec is imported with the first codec, not with this module.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import Any, get_origin, is_typeddict

from holdfast.jobs.declare.validation import ValidationError, shown, type_name, validation_error


class JsonCodec:
    """Encode any value; decoding checks it against the declared type.

    Raises:
        TypeError: values of the declared type cannot be stored.
    """

    __slots__ = ("_decoder", "_encoder", "declared", "subject")

    def __init__(self, declared: Any, subject: str) -> None:
        import msgspec.inspect

        self.declared = Any if declared is object else declared
        self.subject = subject
        try:
            foreign = _foreign_type(msgspec.inspect.type_info(self.declared))
            self._decoder = msgspec.json.Decoder(self.declared, dec_hook=_read_foreign)
        except (TypeError, NameError, RecursionError) as error:
            name = type_name(declared)
            raise TypeError(f"{subject}: {name} cannot be stored: {error}") from None
        if foreign is not None:
            raise TypeError(
                f"{subject}: {type_name(declared)} cannot be stored: {type_name(foreign)} is "
                f"not a JSON value, dataclass, TypedDict, pydantic model or msgspec Struct"
            )
        self._encoder = msgspec.json.Encoder(enc_hook=_write_foreign)

    def encode(self, value: Any) -> str:
        """Return `value` as JSON text."""
        if value is None:
            return "null"
        try:
            return self._encoder.encode(value).decode()
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValidationError(
                self.subject, f"cannot be stored as JSON: {error}; got {shown(value)}"
            ) from error

    def decode(self, text: str) -> Any:
        """Return the value that `text` encodes."""
        return self._read(text, None)

    def _read(self, text: str, given: object) -> Any:
        """Decode `text`; an error shows the value in `given`, or the one in the text."""
        import msgspec

        try:
            return self._decoder.decode(text)
        except msgspec.ValidationError as error:
            source = _decode_untyped(text) if given is None else given
            raise validation_error(self.subject, str(error), source) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValidationError(self.subject, f"the stored text is not JSON: {error}") from None


class CheckedJsonCodec(JsonCodec):
    """Encode only values that decode to an equal value."""

    __slots__ = ("_fields", "_model")

    def __init__(self, declared: Any, subject: str) -> None:
        super().__init__(declared, subject)
        self._model, self._fields = _model_of(declared)

    def encode(self, value: Any) -> str:
        """Return `value` as JSON text.

        If the declared type is a class, a mapping of its fields is accepted too.
        """
        if self._model is not None and type(value) is not self._model:
            value = self._from_mapping(value, self._model)
        text = super().encode(value)
        back = self._read(text, value)
        if type(back) is not type(value) or not equal(back, value):
            self._check_equal(value, back)
        return text

    def _from_mapping(self, value: object, model: type[Any]) -> Any:
        if not isinstance(value, Mapping):
            raise ValidationError(self.subject, f"must be a {model.__name__}, got {shown(value)}")
        for name in value:
            if name not in self._fields:
                known = ", ".join(sorted(self._fields))
                problem = f"{model.__name__} has no such field, only {known}"
                raise ValidationError(self.subject, problem, field=str(name))
        return self._read(super().encode(dict(value)), value)

    def _check_equal(self, given: object, back: object) -> None:
        try:
            found = _difference(_plain(given), _plain(back), "")
        except (TypeError, ValueError, OverflowError, RecursionError):
            # Keys of several types cannot be sorted, and are not JSON.
            found = "", given, back
        if found is not None:
            path, was, becomes = found
            raise ValidationError(
                self.subject,
                f"would be decoded differently: {shown(was)} becomes {shown(becomes)}",
                field=path,
            )


def _decode_untyped(text: str) -> Any:
    """Decode `text` without a type; return the text itself if it is not JSON."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def is_pydantic(declared: Any) -> bool:
    """Say whether a type is a pydantic model or dataclass, without importing pydantic."""
    return isinstance(declared, type) and hasattr(declared, "__pydantic_validator__")


def equal(one: Any, other: Any) -> bool:
    """Compare two values; a comparison that raises counts as different."""
    try:
        return bool(one == other)
    except Exception:
        return False


def _model_of(declared: Any) -> tuple[type[Any] | None, frozenset[str]]:
    """Return the declared class and the stored names of its fields."""
    import msgspec.inspect

    kind = get_origin(declared) or declared
    if not isinstance(kind, type) or is_typeddict(kind):
        return None, frozenset()
    info = msgspec.inspect.type_info(declared)
    if not isinstance(info, msgspec.inspect.DataclassType | msgspec.inspect.StructType):
        return None, frozenset()
    return kind, frozenset(field.encode_name for field in info.fields)


def _foreign_type(info: Any) -> Any:
    """Return a type that neither msgspec nor the hooks below can decode, or None."""
    import msgspec.inspect

    pending, seen = [info], set[int]()
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            pending.extend(item)
        elif isinstance(item, msgspec.inspect.CustomType):
            if not _can_read(item.cls):
                return item.cls
        elif isinstance(item, msgspec.Struct) and id(item) not in seen:
            seen.add(id(item))
            pending.extend(getattr(item, name) for name in item.__struct_fields__)
    return None


def _can_read(kind: type) -> bool:
    return kind is object or issubclass(kind, PurePath) or is_pydantic(kind)


def _read_foreign(kind: Any, value: Any) -> Any:
    import msgspec

    if kind is object:
        return value
    if issubclass(kind, PurePath):
        return kind(value)
    # As JSON, not as Python: a strict model accepts a time as a string only in JSON.
    return kind.model_validate_json(msgspec.json.encode(value))


def _write_foreign(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    if is_pydantic(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"{type_name(type(value))} is not a JSON value")


def _plain(value: object) -> Any:
    """Return `value` as lists, mappings and scalars, including some scalars that JSON lacks."""
    import msgspec

    return msgspec.to_builtins(
        value, builtin_types=_scalars(), enc_hook=_write_foreign, order="deterministic"
    )


@cache
def _scalars() -> tuple[type, ...]:
    import datetime
    import decimal
    import uuid

    times = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)
    return (*times, bytes, bytearray, uuid.UUID, decimal.Decimal)


def _difference(given: Any, back: Any, path: str) -> tuple[str, object, object] | None:
    """Return the path of the first difference, and both values there."""
    if isinstance(given, list | tuple) and isinstance(back, list | tuple):
        if len(given) != len(back):
            return path, given, back
        pairs = [(f"{path}[{n}]", *pair) for n, pair in enumerate(zip(given, back, strict=True))]
    elif isinstance(given, dict) and isinstance(back, dict):
        for key in given:
            if key not in back:
                return path, given, back
        pairs = [
            (f"{path}.{key}" if path else str(key), value, back[key])
            for key, value in given.items()
        ]
    else:
        return None if equal(given, back) else (path, given, back)
    found = (_difference(was, becomes, place) for place, was, becomes in pairs)
    return next((difference for difference in found if difference is not None), None)
