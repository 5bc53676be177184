"""A model that refuses its caller: a wrong key or address is an outage, and no text is to blame."""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast import HoldfastError
from holdfast.providers import is_setup_error
from holdfast_ingestion.error_codes import MODEL_KEY_REFUSED


class KeyRefused(HoldfastError):
    """Report that a model refuses its key, or is not at its address. Jobs are tried again."""

    code = MODEL_KEY_REFUSED


@contextmanager
def refusals_of(model: str) -> Iterator[None]:
    """Raise `KeyRefused` where a call of `model` fails because of how it is set up."""
    try:
        yield
    except Exception as error:
        if is_setup_error(error):
            line = f"The {model} refuses its key, or is not at its address."
            raise KeyRefused(line) from error
        raise
