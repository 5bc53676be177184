"""How the values are declared that are made anew for every job.

A frozen dataclass sets each field through `object.__setattr__`, which for a value of a dozen fields
takes longer than writing the job to disk does. These are as immutable as the others by agreement:
a type checker refuses an assignment, the running program does not look.
"""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(declared: type[T]) -> type[T]:
    """Make a class a dataclass with slots, compared and hashed by its fields, quick to make.

    Nobody changes a field once the value is made; `dataclasses.replace` makes another one.
    """
    return dataclass(slots=True, unsafe_hash=True)(declared)
