"""`holdfast owners`: limits of owners, and what they use."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.audit_trail import entry_of
from holdfast.cli.options import WORK, AsJson, Database, Limit, OfApps
from holdfast.cli.output import Record, show, show_json, show_one
from holdfast.cli.store_session import at_least_one, on_store
from holdfast.cli.usage import UsageError

if TYPE_CHECKING:
    from holdfast.bootstrap import Engine
    from holdfast.jobs.client.owner_control import OwnerUse
    from holdfast.jobs.owner_limits import OwnerLimits
    from holdfast.resilience.policy import RateLimit

APP = typer.Typer(
    name="owners",
    help="Limit owners, and see what they use.\n\nAn owner's own limits replace those that the "
    "settings HOLDFAST_OWNER_... give to every owner.",
    rich_help_panel=WORK,
)
APPS = (APP,)

_LIMITS = (
    "concurrency", "per_second", "per_minute", "per_day", "waiting", "storage_bytes",
)  # fmt: skip
_NONE = "none"

OwnerName = Annotated[str, typer.Argument(metavar="OWNER", help="The owner of the jobs.")]


def _option(name: str, meaning: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        f"--{name}", metavar="N", help=f"{meaning}; `none` for no limit.", show_default=False
    )
    return option


@APP.command("list")
def list_owners(
    limit: Limit = 100,
    after: Annotated[str, typer.Option(metavar="OWNER", help="Those behind this name.")] = "",
    as_json: AsJson = False,
    database: Database = None,
) -> int:
    """List the owners with limits of their own, by name."""
    most = at_least_one("--limit", limit)
    found = on_store(database, lambda engine: engine.owners.list(after=after, limit=most))
    records = [{"owner": each.owner, **_limits(each.limits)} for each in found]
    show(records, ("owner", *_LIMITS), as_json=as_json)
    return 0


@APP.command("show")
def show_owner(
    owner: OwnerName, apps: OfApps = None, as_json: AsJson = False, database: Database = None
) -> int:
    """Show what an owner may use, and what it uses now."""
    from holdfast.cli.app_discovery import installed_names

    names = apps or installed_names()
    use = on_store(database, lambda engine: engine.owners.use(_named(owner)), apps=names)
    if as_json:
        show_json(_record(use))
    else:
        show_one(_record(use))
    return 0


@APP.command()
def limit(
    owner: OwnerName,
    concurrency: Annotated[str | None, _option("concurrency", "Jobs that run at once")] = None,
    per_second: Annotated[str | None, _option("per-second", "Starts in a second")] = None,
    per_minute: Annotated[str | None, _option("per-minute", "Starts in a minute")] = None,
    per_day: Annotated[str | None, _option("per-day", "Starts in a day")] = None,
    waiting: Annotated[str | None, _option("waiting", "Unfinished jobs")] = None,
    storage_bytes: Annotated[str | None, _option("storage-bytes", "Bytes that apps keep")] = None,
    database: Database = None,
) -> int:
    """Change limits of an owner; those that are not named stay as they are."""
    given = {
        "concurrency": concurrency, "per_second": per_second, "per_minute": per_minute,
        "per_day": per_day, "waiting": waiting, "storage_bytes": storage_bytes,
    }  # fmt: skip
    asked = {name: _number(name, text) for name, text in given.items() if text is not None}
    if not asked:
        raise UsageError("name at least one limit, such as --concurrency 5")
    limits = on_store(database, lambda engine: _changed(engine, _named(owner), asked))
    print(f"limits of {owner!r}: {_listed(limits)}")
    return 0


@APP.command()
def clear(owner: OwnerName, database: Database = None) -> int:
    """Delete an owner's own limits, so that those of every owner hold."""
    had = on_store(database, lambda engine: _cleared(engine, _named(owner)))
    print(f"{owner!r} has no limits of its own {'any more' if had else 'already'}")
    return 0


async def _changed(engine: "Engine", owner: str, asked: "dict[str, int | None]") -> "OwnerLimits":
    before = await engine.owners.limits(owner)
    periods = {name: asked[name] for name in asked if name.startswith("per_")}
    rest = {name: asked[name] for name in asked if name not in periods}
    try:
        limits = replace(before, **rest, rate=_rate(before.rate, periods))
    except ValueError as error:
        raise UsageError(str(error)) from None
    entry = await entry_of(engine, "owner-limits.set", owner, **_limits(limits))
    await engine.owners.set_limits(owner, limits, entry=entry)
    return limits


async def _cleared(engine: "Engine", owner: str) -> bool:
    entry = await entry_of(engine, "owner-limits.delete", owner)
    return await engine.owners.clear_limits(owner, entry=entry)


def _rate(before: "RateLimit | None", asked: "dict[str, int | None]") -> "RateLimit | None":
    from holdfast.resilience.policy import RateLimit

    names = ("per_second", "per_minute", "per_day")
    kept = {name: getattr(before, name, None) for name in names} | asked
    if all(value is None for value in kept.values()):
        return None
    return RateLimit(**kept, spread=before is not None and before.spread)


def _named(owner: str) -> str:
    if not owner.strip():
        raise UsageError("OWNER must not be empty")
    return owner


def _number(name: str, text: str) -> int | None:
    if text == _NONE:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        option = name.replace("_", "-")
        raise UsageError(f"--{option} must be a whole number of at least 1, or none, got {text!r}")
    return int(text)


def _limits(limits: "OwnerLimits") -> Record:
    return {
        name: getattr(limits.rate if name.startswith("per_") else limits, name, None)
        for name in _LIMITS
    }


def _listed(limits: "OwnerLimits") -> str:
    found = [f"{name} {value}" for name, value in _limits(limits).items() if value is not None]
    return ", ".join(found) or _NONE


def _record(use: "OwnerUse") -> Record:
    return {
        "owner": use.owner,
        "own_limits": use.own,
        **_limits(use.limits),
        "running": use.running,
        "unfinished": use.unfinished,
        "more_unfinished": use.more_unfinished,
        "stored_bytes": use.stored_bytes,
        "stored_complete": use.stored_complete,
    }
