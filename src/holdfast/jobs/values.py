"""How the values are declared that are made anew for every job.

A frozen dataclass sets each field through `object.__setattr__`, which for a value of a dozen fields
takes longer than writing the job to disk does. A struct is made in a tenth of that time, and is
none of the objects that the garbage collector goes through again and again.
"""

import msgspec


class Value(msgspec.Struct, frozen=True, gc=False):
    """An immutable value with slots, compared and hashed by its fields, quick to make.

    `msgspec.structs.replace` makes another one. What it holds must not hold it in turn: nobody
    would find such a circle.
    """
