"""The lines that a page shows once, after a form: the address names them by a key."""

import re
from collections.abc import Mapping

from holdfast.errors import ErrorInfo
from holdfast.http.api_errors import TWIN_LINE

_NOTES = {
    "held": "Its jobs are held until it is released or reset.",
    "released": "Trial calls begin now.",
    "reset": "Its breaker is closed; held jobs start gradually.",
    "paused": "Paused. Running attempts finish; nothing new is claimed.",
    "resumed": "Resumed.",
    "run": "A job was enqueued beside the schedule.",
    "finishing": "The worker ends after the jobs that it runs.",
    "retried": "Back in the queue; its attempts are counted from one.",
    "expedited": "Its next attempt begins now.",
    "cancelled": "Cancelled, or asked to stop.",
    "requeued": "Back in the queue.",
    "run-begun": "It has begun. This page shows how far it is.",
    "run-stopped": "Asked to stop. What was done before stays done.",
    "discarded": "Discarded.",
    "intake-paused": "The intake is paused, in all servers.",
    "intake-resumed": "The intake is open.",
    "deliveries-paused": "Deliveries are paused; they wait until they are resumed.",
    "tested": "A test message is on its way; the list shows what came of it.",
    "removed": "Removed.",
    "limits-set": "Its limits hold from now on; running jobs go on.",
    "limits-cleared": "It has the limits of every owner now.",
    "nothing-selected": "Select some rows first.",
    "twin": TWIN_LINE,
}
_COUNTED_WORDS = {"requeue": "requeued", "discard": "discarded"}
# Short numbers only: the address is anyone's to write.
_COUNTED = re.compile(r"(requeue|discard)\.([0-9]{1,3})\.([0-9]{1,3})")


def note_line(errors: Mapping[str, ErrorInfo], key: str | None) -> str:
    """Return the line for `key`: a note, or the message of an error code; "" for another."""
    if not key:
        return ""
    known = errors.get(key)
    if known is not None:
        return known.message
    return _NOTES.get(key) or _counted_line(key)


def counted_note(move: str, done: int, skipped: int) -> str:
    """Return the key of the line that says how many jobs were requeued or discarded."""
    return f"{move}.{done}.{skipped}"


def _counted_line(key: str) -> str:
    found = _COUNTED.fullmatch(key)
    if found is None:
        return ""
    move, done, skipped = found.groups()
    line = f"{int(done)} {_COUNTED_WORDS[move]}"
    return f"{line}, {int(skipped)} skipped." if int(skipped) else f"{line}."
