"""Base classes for immutable values that are created once per job.

A frozen dataclass sets each field through `object.__setattr__`; with a dozen fields that takes
longer than writing the job to disk. A msgspec struct takes a tenth of that time and is not tracked
by the garbage collector. Values in the public API are dataclasses, which frameworks support.
"""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

import msgspec

T = TypeVar("T")


class Value(msgspec.Struct, frozen=True, gc=False):
    """An immutable struct, compared and hashed by its fields.

    `msgspec.structs.replace` makes a changed copy. It must not be part of a reference cycle, which
    would never be collected.
    """


@dataclass_transform(frozen_default=True)
def value(declared: type[T]) -> type[T]:
    """Make a class a dataclass with slots, compared and hashed by its fields.

    Type checkers treat it as frozen; at run time assignments are not checked, for speed.
    `dataclasses.replace` makes a changed copy.
    """
    return dataclass(slots=True, unsafe_hash=True)(declared)
