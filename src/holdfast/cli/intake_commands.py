"""`holdfast intake`: keep new work out, and let it in again."""

import json
from datetime import UTC, datetime

from holdfast.cli.store_command import with_engine
from holdfast.cli.usage import UsageError
from holdfast.jobs.intake_port import IntakePause


def pause(database: str | None, *, reason: str) -> int:
    """Pause the intake of all servers; return the exit code."""
    try:
        paused = with_engine(database, lambda engine: engine.intake.pause(reason))
    except ValueError as error:
        raise UsageError(f"--reason: {error}") from None
    print(_line(paused))
    return 0


def resume(database: str | None) -> int:
    """Let new work in again; return the exit code."""
    was_paused = with_engine(database, lambda engine: engine.intake.resume())
    print("the intake is open again" if was_paused else "the intake was not paused")
    return 0


def show(database: str | None, *, as_json: bool = False) -> int:
    """Say whether the intake is paused; return the exit code."""
    pause = with_engine(database, lambda engine: engine.intake.state())
    if as_json:
        found = None if pause is None else {"reason": pause.reason, "pausedAt": _moment(pause)}
        print(json.dumps({"paused": pause is not None, **(found or {})}))
    else:
        print("the intake is open" if pause is None else _line(pause))
    return 0


def _line(pause: IntakePause) -> str:
    return f"the intake is paused since {_moment(pause)}: {pause.reason}"


def _moment(pause: IntakePause) -> str:
    return f"{datetime.fromtimestamp(pause.paused_at, UTC):%Y-%m-%dT%H:%M:%SZ}"
