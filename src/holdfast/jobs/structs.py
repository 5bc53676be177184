"""How the values are declared that are made anew for every job.

A frozen dataclass sets each field through `object.__setattr__`, which for a value of a dozen fields
takes longer than writing the job to disk does. A struct is made in a tenth of that time, and is
none of the objects that the garbage collector goes through again and again. What callers hold is a
dataclass all the same, for that is what their frameworks know.
"""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

import msgspec

T = TypeVar("T")


class Value(msgspec.Struct, frozen=True, gc=False):
    """An immutable value with slots, compared and hashed by its fields, quick to make.

    `msgspec.structs.replace` makes another one. What it holds must not hold it in turn: nobody
    would find such a circle.
    """


@dataclass_transform(frozen_default=True)
def value(declared: type[T]) -> type[T]:
    """Make a class a dataclass with slots, compared and hashed by its fields, quick to make.

    Nobody changes a field once the value is made: a type checker refuses it, the running program
    does not look. `dataclasses.replace` makes another one.
    """
    return dataclass(slots=True, unsafe_hash=True)(declared)
