"""`holdfast downstream`: list breakers; reset, hold and release them."""

import math
from collections import Counter
from typing import TYPE_CHECKING, Literal

import typer

from holdfast.cli.options import FLEET, AsJson, Database, Names
from holdfast.cli.outcomes import Outcome, each, show_outcomes
from holdfast.cli.output import Record, moment, show
from holdfast.cli.store_session import on_store

if TYPE_CHECKING:
    from holdfast.bootstrap import Engine
    from holdfast.jobs.downstreams.record import DownstreamRecord

APP = typer.Typer(
    name="downstream",
    help="List the breakers of downstreams; reset, hold and release them.",
    rich_help_panel=FLEET,
)
APPS = (APP,)
_COLUMNS = ("name", "state", "held", "ready", "failures", "opened_at", "open_until", "trips")


@APP.command("list")
def list_downstreams(as_json: AsJson = False, database: Database = None) -> int:
    """List downstreams: state of the breaker, whether jobs are held, how many are ready."""
    show(on_store(database, downstream_records), _COLUMNS, as_json=as_json)
    return 0


@APP.command()
def reset(names: Names, as_json: AsJson = False, database: Database = None) -> int:
    """Close a breaker and clear its failures; held jobs start gradually."""
    return _change(names, database, "reset", as_json=as_json)


@APP.command()
def hold(names: Names, as_json: AsJson = False, database: Database = None) -> int:
    """Hold the jobs of a downstream until it is released or reset."""
    return _change(names, database, "hold", as_json=as_json)


@APP.command()
def release(names: Names, as_json: AsJson = False, database: Database = None) -> int:
    """Start trial calls now: end a hold, or the wait of an open breaker."""
    return _change(names, database, "release", as_json=as_json)


async def downstream_records(engine: "Engine") -> list[Record]:
    """Return all downstreams as records, by name."""
    now = await engine.store.ping()
    ready: Counter[str] = Counter()
    for lane in (await engine.stats()).lanes:
        if lane.downstream is not None:
            ready[lane.downstream] += lane.ready
    found = await engine.downstreams.list()
    return [{**_record(record, now), "ready": ready[record.name]} for record in found]


def _change(
    names: list[str],
    database: str | None,
    verb: Literal["reset", "hold", "release"],
    *,
    as_json: bool,
) -> int:
    async def work(engine: "Engine") -> list[Outcome]:
        control = engine.downstreams
        change = {"reset": control.reset, "hold": control.hold, "release": control.release}[verb]

        async def changed(name: str) -> tuple[str, Record]:
            record = _record(await change(name), await engine.store.ping())
            by_hand = ", held by hand" if record["held_by_hand"] else ""
            return f"{name} is {record['state']}{by_hand}", record

        return await each(engine, f"downstreams.{verb}", names, changed)

    return show_outcomes(on_store(database, work), as_json=as_json)


def _record(record: "DownstreamRecord", now: float) -> Record:
    circuit = record.circuit
    until = circuit.open_until
    return {
        "name": record.name,
        "state": record.state_at(now),
        "held": record.holds_at(now),
        "held_by_hand": circuit.held,
        "mode": record.settings.mode,
        "failures": circuit.streak,
        "last_error": record.last_error,
        "opened_at": moment(circuit.opened_at),
        "open_until": None if until is None or math.isinf(until) else moment(until),
        "trips": record.trips,
        "open_seconds": round(record.open_seconds, 3),
        "cause": None if circuit.cause is None else circuit.cause.name,
    }
