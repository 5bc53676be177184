"""`holdfast keys`: create, list and revoke API keys."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.audit_trail import record
from holdfast.cli.options import CARE, AsJson, Database
from holdfast.cli.output import moment, show, show_json
from holdfast.cli.store_session import on_store
from holdfast.cli.usage import UsageError

if TYPE_CHECKING:
    from holdfast.bootstrap import Engine
    from holdfast.jobs.client.api_keys import CreatedKey
    from holdfast.jobs.key_port import ApiKey

APP = typer.Typer(
    name="keys",
    help="Create, list and revoke API keys.\n\nPrograms send a key as 'Authorization: Bearer "
    "hf_...' or as 'X-API-Key'. It stands for an owner and an organisation.",
    rich_help_panel=CARE,
)
APPS = (APP,)
_COLUMNS = ("id", "begins", "name", "owner", "organisation", "job_owner", "created", "revoked")


@APP.command()
def create(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What people call it, such as 'laptop of Ann'.")
    ],
    organisation: Annotated[
        str, typer.Option(metavar="NAME", help="Whose data it opens in the apps.")
    ],
    owner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Whose jobs it sees and creates; default: the organisation."
        ),
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> int:
    """Create a key and print its secret, once."""

    async def work(engine: "Engine") -> "CreatedKey":
        whose = {"owner": owner or organisation, "organisation": organisation}
        created = await engine.keys.create(**whose, name=name)
        await record(engine, "keys.create", created.key.id, **whose, name=name)
        return created

    try:
        created = on_store(database, work, create=True)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if as_json:
        show_json({**_record(created.key), "secret": created.secret})
    else:
        print(created.secret)
    return 0


@APP.command("list")
def list_keys(database: Database = None, as_json: AsJson = False) -> int:
    """List all keys, also revoked ones, without their secrets."""
    found = on_store(database, lambda engine: engine.keys.list(), create=True)
    show([_record(key) for key in found], _COLUMNS, as_json=as_json, empty="-")
    return 0


@APP.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As 'holdfast keys list' shows it.")],
    database: Database = None,
) -> int:
    """Let a key open nothing any more; running servers refuse it at once."""

    async def work(engine: "Engine") -> None:
        await engine.keys.revoke(key_id)
        await record(engine, "keys.revoke", key_id)

    try:
        on_store(database, work, create=True)
    except UsageError as error:
        raise UsageError(f"{error}; see: holdfast keys list") from None
    print(f"the key {key_id} is revoked")
    return 0


def _record(key: "ApiKey") -> dict[str, str | None]:
    return {
        "id": key.id,
        "begins": key.hint,
        "name": key.name,
        "owner": key.owner,
        "organisation": key.organisation,
        "job_owner": key.job_owner,  # what `owners` and `erase` ask for
        "created": _to_seconds(moment(key.created_at)),
        "revoked": _to_seconds(moment(key.revoked_at)),
    }


def _to_seconds(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"
