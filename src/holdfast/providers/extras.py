"""Name the extra that brings a missing SDK."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def from_extra(extra: str, module: str) -> Iterator[None]:
    """Import `module` in this block; if it is missing, the error names the `extra` that brings it.

    Raises:
        ImportError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # the SDK is there; something that it needs is missing
        raise ImportError(f"{module} is missing: pip install 'holdfast[{extra}]'") from None
