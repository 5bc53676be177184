"""Convert downstream records to database rows, some columns and JSON text, and back."""

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from holdfast.errors import stored_code
from holdfast.jobs.downstreams.record import (
    DownstreamRecord,
    DownstreamSettings,
    HoldMode,
    TrialRetry,
)
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
            # Not in "trials": the release before this one reads two values there.
            "outside_trials": [trial.number for trial in circuit.trials if trial.outside],
            "trials_started": circuit.trials_started,
            "cause": None if circuit.cause is None else circuit.cause.name,
            "window": record.window,
            "closed_at": record.closed_at,
            "trips": record.trips,
            "open_seconds": record.open_seconds,
            "last_error": record.last_error,
            "well_at": None,  # no longer used, but the release before this one reads it
            "failed_rounds": record.failed_rounds,
            "trial_retries": [
                [retry.job_id, retry.token, retry.ready_at, retry.not_before]
                for retry in record.trial_retries
            ],
            "proven": record.proven,
            "recent_trips": record.recent_trips,
        }
    )


def dump_settings(settings: DownstreamSettings) -> str:
    """Return the settings without the name and the parent as JSON text."""
    breaker = settings.breaker
    policy = None if breaker is None else {name: getattr(breaker, name) for name in _POLICY_FIELDS}
    rate = settings.rate
    return json.dumps(
        {
            "breaker": policy,
            # Not in "breaker": a worker of the release before this one would not accept it there.
            "rate_rule": "above" if breaker is None else breaker.rate_rule,
            "mode": settings.mode,
            "concurrency": settings.concurrency,
            "spare": settings.spare,
            **_rate_fields(rate),
            "ramp_seconds": settings.ramp_seconds,
            "unproven_concurrency": settings.unproven_concurrency,
        }
    )


def _rate_fields(rate: RateLimit | None) -> dict[str, Any]:
    """Return a rate limit in two fields: the release before this one reads the first only."""
    if rate is None:
        return {"rate": None}
    usual = [rate.per_minute, rate.per_day]
    fields: dict[str, Any] = {"rate": None if usual == [None, None] else usual}
    if rate.per_second is not None or rate.spread:
        fields["rate_more"] = [rate.per_second, rate.spread]
    return fields


def _rate(data: dict[str, Any]) -> RateLimit | None:
    usual, more = data["rate"], data.get("rate_more")
    if usual is None and more is None:
        return None
    return RateLimit(*(usual or (None, None)), *(more or (None, False)))


def storable(settings: DownstreamSettings) -> DownstreamSettings:
    """Return `settings` as they are read back, so that declaring them again changes nothing."""
    if settings.breaker is None or not settings.breaker.exclude:
        return settings
    return replace(settings, breaker=replace(settings.breaker, exclude=()))


def declared_again(record: DownstreamRecord, settings: DownstreamSettings) -> DownstreamRecord:
    """Return `record` with `settings`; the same values if they are those that it has.

    A record that was declared both with a key and without one is not the key's to delete: it has
    no parent, for ever.
    """
    parent = settings.parent if settings.parent == record.settings.parent else None
    return replace(record, settings=replace(storable(settings), parent=parent))


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
    policy = data["breaker"]
    rate_rule = data.get("rate_rule", "above")  # not written by the release before this one
    return DownstreamSettings(
        name=name,
        breaker=None if policy is None else BreakerPolicy(**policy, rate_rule=rate_rule),
        mode=HoldMode(data["mode"]),
        concurrency=data["concurrency"],
        rate=_rate(data),
        ramp_seconds=data["ramp_seconds"],
        # Not written by the release before this one.
        spare=data.get("spare", 0),
        unproven_concurrency=data.get("unproven_concurrency"),
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
    parent: str | None = None
    used_at: float | None = None


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
        record.settings.parent,
        record.used_at,
    )


def load_downstream(row: StoredDownstream) -> DownstreamRecord:
    """Return the record of a row made by `dump_downstream`."""
    record = _load_nameless(row.state, row.generation, row.open_until, row.settings, row.record)
    settings = replace(record.settings, name=row.name, parent=row.parent)
    return replace(record, settings=settings, version=row.version, used_at=row.used_at)


# Thousands of hosts may share the same settings, and most of their records show no failure.
@lru_cache(maxsize=1024)
def _load_nameless(
    state: str, generation: int, open_until: float | None, settings: str, record: str
) -> DownstreamRecord:
    data: dict[str, Any] = json.loads(record)
    outside = data.get("outside_trials", ())  # not written by the release before this one
    circuit = Circuit(
        state=CircuitState(state),
        generation=generation,
        streak=data["streak"],
        opened_at=data["opened_at"],
        open_until=open_until,
        successes=data["successes"],
        trials=tuple(
            Trial(number, expires_at, number in outside) for number, expires_at in data["trials"]
        ),
        trials_started=data["trials_started"],
        cause=None if data["cause"] is None else Cause[data["cause"]],
    )
    return DownstreamRecord(
        settings=load_settings("", settings),
        circuit=circuit,
        window=tuple((bucket, calls, failures) for bucket, calls, failures in data["window"]),
        closed_at=data["closed_at"],
        trips=data["trips"],
        open_seconds=data["open_seconds"],
        last_error=None if data["last_error"] is None else stored_code(data["last_error"]),
        # Not written by the release before this one.
        failed_rounds=data.get("failed_rounds", 0),
        trial_retries=tuple(
            TrialRetry(job_id, token, ready_at, not_before)
            for job_id, token, ready_at, not_before in data.get("trial_retries", ())
        ),
        proven=data.get("proven", False),
        recent_trips=tuple(data.get("recent_trips", ())),
    )
