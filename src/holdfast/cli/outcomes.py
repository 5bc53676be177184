"""Change several things by name, and print what became of each."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.cli.audit_trail import record as audit
from holdfast.cli.output import Record, note, show_json
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.bootstrap import Engine


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did to the thing `name`.

    Attributes:
        line: what was done, for people; or why it was not.
        record: the thing afterwards; None if it was left as it was.
        unknown: there is no such thing.
    """

    name: str
    line: str
    record: Record | None = None
    unknown: bool = False


async def each(
    engine: "Engine",
    action: str,
    names: Iterable[str],
    change: Callable[[str], Awaitable[tuple[str, Record]]],
) -> list[Outcome]:
    """Call `change` for each of `names`; what is refused does not keep the others from it.

    `change` returns a line for people, and the record of what it changed. The audit log gets
    `action` for each that was changed.
    """
    outcomes = []
    for name in dict.fromkeys(names):
        try:
            line, record = await change(name)
        except HoldfastError as error:
            outcomes.append(Outcome(name, _reason(error), unknown=isinstance(error, LookupError)))
        else:
            await audit(engine, action, name)
            outcomes.append(Outcome(name, line, record))
    return outcomes


def _reason(error: HoldfastError) -> str:
    from holdfast.jobs.exceptions import UnknownKind

    if isinstance(error, UnknownKind):  # its own advice is for programs
        return f"there is no kind {error.kind!r}: no job of it is stored, and --app declares none"
    return str(error)


def show_outcomes(outcomes: Sequence[Outcome], *, as_json: bool = False) -> int:
    """Print the outcomes, refusals on standard error, and return the exit code.

    It is 2 if something named does not exist, 1 if something was refused.
    """
    if as_json:
        show_json([one.record or {"name": one.name, "error": one.line} for one in outcomes])
    for one in outcomes:
        if one.record is None:
            note(one.line)
        elif not as_json:
            print(one.line)
    if any(one.unknown for one in outcomes):
        return 2
    return 1 if any(one.record is None for one in outcomes) else 0
