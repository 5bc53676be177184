"""Convert downstream records to database rows, some columns and JSON text, and back."""

import json
from dataclasses import dataclass
from typing import Any

from holdfast.errors import stored_code
from holdfast.jobs.downstreams.record import DownstreamRecord, DownstreamSettings, HoldMode
from holdfast.resilience.breaker.transitions import Cause, Circuit, CircuitState, Trial
from holdfast.resilience.policy import BreakerPolicy, RateLimit


def dump_record(record: DownstreamRecord) -> str:
    """Return the circuit, window and counters of `record` as JSON text."""
    circuit = record.circuit
    return json.dumps(
        {
            "streak": circuit.streak,
            "opened_at": circuit.opened_at,
            "successes": circuit.successes,
            "trials": [[trial.number, trial.expires_at] for trial in circuit.trials],
            "trials_started": circuit.trials_started,
            "cause": None if circuit.cause is None else circuit.cause.name,
            "window": record.window,
            "closed_at": record.closed_at,
            "trips": record.trips,
            "open_seconds": record.open_seconds,
            "last_error": record.last_error,
            "well_at": record.well_at,
        }
    )


def dump_settings(settings: DownstreamSettings) -> str:
    """Return the settings without the name as JSON text."""
    breaker = settings.breaker
    policy = None if breaker is None else {name: getattr(breaker, name) for name in _POLICY_FIELDS}
    rate = settings.rate
    return json.dumps(
        {
            "breaker": policy,
            "mode": settings.mode,
            "concurrency": settings.concurrency,
            "rate": None if rate is None else [rate.per_minute, rate.per_day],
            "ramp_seconds": settings.ramp_seconds,
        }
    )


_POLICY_FIELDS = (
    "consecutive_failures",
    "failure_rate",
    "window_calls",
    "window_seconds",
    "minimum_calls",
    "open_for",
    "trial_calls",
    "trial_timeout",
)


def load_settings(name: str, text: str) -> DownstreamSettings:
    """Decode the text of `dump_settings`."""
    data: dict[str, Any] = json.loads(text)
    rate = data["rate"]
    return DownstreamSettings(
        name=name,
        breaker=None if data["breaker"] is None else BreakerPolicy(**data["breaker"]),
        mode=HoldMode(data["mode"]),
        concurrency=data["concurrency"],
        rate=None if rate is None else RateLimit(*rate),
        ramp_seconds=data["ramp_seconds"],
    )


@dataclass(frozen=True, slots=True)
class StoredDownstream:
    """A downstream's row: columns used in SQL, and the rest as JSON text."""

    name: str
    version: int
    state: str
    generation: int
    open_until: float | None
    settings: str
    record: str


def dump_downstream(record: DownstreamRecord) -> StoredDownstream:
    """Return the row to store for `record`."""
    circuit = record.circuit
    return StoredDownstream(
        record.name,
        record.version,
        str(circuit.state),
        circuit.generation,
        circuit.open_until,
        dump_settings(record.settings),
        dump_record(record),
    )


def load_downstream(row: StoredDownstream) -> DownstreamRecord:
    """Return the record of a row made by `dump_downstream`."""
    data: dict[str, Any] = json.loads(row.record)
    circuit = Circuit(
        state=CircuitState(row.state),
        generation=row.generation,
        streak=data["streak"],
        opened_at=data["opened_at"],
        open_until=row.open_until,
        successes=data["successes"],
        trials=tuple(Trial(number, expires_at) for number, expires_at in data["trials"]),
        trials_started=data["trials_started"],
        cause=None if data["cause"] is None else Cause[data["cause"]],
    )
    return DownstreamRecord(
        settings=load_settings(row.name, row.settings),
        circuit=circuit,
        window=tuple((bucket, calls, failures) for bucket, calls, failures in data["window"]),
        closed_at=data["closed_at"],
        trips=data["trips"],
        open_seconds=data["open_seconds"],
        version=row.version,
        last_error=None if data["last_error"] is None else stored_code(data["last_error"]),
        well_at=data["well_at"],
    )
