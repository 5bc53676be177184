"""The slot of a job in its meta: `{"slot": "2026-03-29T03:00:00+02:00"}`."""

import json
from datetime import datetime, tzinfo

_SLOT = "slot"


def slot_meta(slot: float, zone: tzinfo) -> str:
    """Return the meta of the job for `slot`, in epoch seconds, as JSON text."""
    return json.dumps({_SLOT: datetime.fromtimestamp(slot, zone).isoformat()})


def slot_in(meta: str | None, zone: tzinfo) -> datetime | None:
    """Return the slot that `meta` names, in `zone`; None if it names none."""
    if meta is None:
        return None
    try:
        slot = datetime.fromisoformat(json.loads(meta)[_SLOT])
    except (ValueError, KeyError, TypeError):
        return None
    return slot.astimezone(zone) if slot.tzinfo is not None else None
