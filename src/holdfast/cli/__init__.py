"""The command line: parsing, and nothing else.

Exit codes: 0 done, 1 it could not be done, 2 the command was not understood or names something that
does not exist (one line on standard error says why), 130 interrupted. A worker that had to be ended
by force: 3 where code of handlers still ran, 4 where running jobs were left to their leases.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

from holdfast.cli import operations_parser
from holdfast.errors import HoldfastError

_OWN = (
    "dlq", "keys", "migrate", "outbox", "relay", "serve", "tour", "worker",
    *operations_parser.NAMES,
)  # fmt: skip
_PACKAGES = {"gateway": "holdfast-conversion"}
"""Commands of our own apps, and the package that brings each."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` asks for and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words and not words[0].startswith("-") and words[0] not in _OWN:
            return _of_app(words[0], words[1:])
        asked = _parser(words).parse_args(words)
        command: Callable[[argparse.Namespace], int] = asked.command
        try:
            return command(asked)
        except (HoldfastError, ValueError) as error:
            # A person can correct it, so it is one line, without a traceback.
            print(f"holdfast: {error}", file=sys.stderr)
            return 2 if _is_usage_error(error) else 1
    except KeyboardInterrupt:
        return 130


def _is_usage_error(error: Exception) -> bool:
    from holdfast.cli.usage import UsageError
    from holdfast.jobs.store_values import BadAddress

    return isinstance(error, UsageError | BadAddress)


def _of_app(name: str, words: Sequence[str]) -> int:
    from holdfast.cli.extensions import find_command

    command = find_command(name)
    if command is not None:
        return command(words)
    package = _PACKAGES.get(name)
    hint = f"pip install {package}" if package else f"Holdfast itself has {', '.join(_OWN)}"
    print(f"holdfast: no installed app adds a command {name!r}; {hint}", file=sys.stderr)
    return 2 if package is None else 1


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast", description="The reliability layer for Python work that must finish."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    _add_tour(commands)
    _add_keys(commands)
    _add_migrate(commands)
    _add_worker(commands)
    _add_relay(commands)
    _add_outbox(commands)
    _add_dlq(commands)
    operations_parser.add_to(commands)
    serve = _add_serve(commands)
    if words[:1] == ["serve"]:
        from holdfast.cli.extensions import add_serve_options

        add_serve_options(serve)
    elif words and words[0].startswith("-"):
        from holdfast.cli.extensions import command_names

        for name, package in sorted(command_names().items()):
            commands.add_parser(name, help=f"added by {package}", add_help=False)
    return parser


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _add_tour(commands: Commands) -> None:
    taken = commands.add_parser(
        "tour",
        help="take a tour: guarded calls against a real local server that misbehaves",
        description=(
            "Start a server on this machine that fails on cue, call it under a policy, and show "
            "what retries, Retry-After and the breaker do. Takes a few seconds and ends by itself."
        ),
    )
    taken.add_argument(
        "--pace",
        type=_pace,
        default=1.0,
        metavar="FACTOR",
        help="stretch (2) or shorten (0.1) every wait; default 1",
    )
    taken.set_defaults(command=_tour)


def _add_keys(commands: Commands) -> None:
    keys = commands.add_parser(
        "keys",
        help="create, list and revoke API keys",
        description=(
            "Programs send a key as 'Authorization: Bearer hf_...' or as 'X-API-Key'. It stands "
            "for an owner and an organisation."
        ),
    )
    actions = keys.add_subparsers(required=True, metavar="action")
    create = actions.add_parser("create", help="create a key and print its secret, once")
    create.add_argument("name", help="what people call it, such as 'laptop of Ann'")
    create.add_argument(
        "--organisation", required=True, metavar="NAME", help="whose data it opens in the apps"
    )
    create.add_argument(
        "--owner", metavar="NAME", help="whose jobs it sees and creates; default: the organisation"
    )
    create.set_defaults(command=_create_key)
    shown = actions.add_parser("list", help="list all keys, without their secrets")
    shown.set_defaults(command=_list_keys)
    revoke = actions.add_parser("revoke", help="let a key open nothing any more")
    revoke.add_argument("id", help="the key's id, as 'holdfast keys list' shows it")
    revoke.set_defaults(command=_revoke_key)
    for action in (create, shown, revoke):
        _add_database(action)


def _add_migrate(commands: Commands) -> None:
    migrate = commands.add_parser(
        "migrate",
        help="bring a database's schema up to date",
        description=(
            "Create or update the schema, with the tables of the apps named. Needed before the "
            "first start on PostgreSQL and after an update; the embedded store does it by itself. "
            "Safe to run at any time."
        ),
    )
    _add_apps(migrate)
    _add_database(migrate)
    by_hand = migrate.add_mutually_exclusive_group()
    by_hand.add_argument(
        "--check", action="store_true", help="only say what is missing; exit code 1 if anything is"
    )
    by_hand.add_argument(
        "--sql", action="store_true", help="only print the SQL that would be applied"
    )
    migrate.set_defaults(command=_migrate)


def _add_worker(commands: Commands) -> None:
    worker = commands.add_parser(
        "worker",
        help="run jobs",
        description=(
            "Run the jobs of the apps named until SIGTERM or Ctrl-C: running jobs are then "
            "finished or released in time; a second signal releases them at once."
        ),
    )
    _add_apps(worker)
    _add_database(worker)
    worker.add_argument(
        "--queue", action="append", metavar="NAME", help="serve only this queue; may be repeated"
    )
    worker.add_argument(
        "--concurrency",
        type=int,
        metavar="N",
        help="jobs at once; default: WORKER_CONCURRENCY, else 10",
    )
    worker.add_argument(
        "--until-idle", action="store_true", help="stop when no job is ready any more"
    )
    worker.set_defaults(command=_worker)


def _add_relay(commands: Commands) -> None:
    relay = commands.add_parser(
        "relay",
        help="publish the messages of the outbox",
        description=(
            "Publish the messages of the outbox to the RabbitMQ at RABBITMQ_URL until SIGTERM or "
            "Ctrl-C; without that setting they become jobs of the apps named. Any number of "
            "relays may run. OUTBOX_POLL_INTERVAL_MS, OUTBOX_BATCH_SIZE and "
            "OUTBOX_STALE_THRESHOLD_MS change how it works."
        ),
    )
    relay.add_argument(
        "app", nargs="*", help="an installed app's name, or mypackage.jobs:app; default: all"
    )
    _add_database(relay)
    relay.add_argument(
        "--until-idle", action="store_true", help="stop when no message can be published any more"
    )
    relay.set_defaults(command=_relay)


def _add_outbox(commands: Commands) -> None:
    outbox = commands.add_parser("outbox", help="look at the messages of the outbox")
    asked = outbox.add_subparsers(required=True, metavar="command")
    listed = asked.add_parser(
        "list",
        help="list messages, newest first",
        description="List messages, newest first: a table on a terminal, TSV when piped.",
    )
    _add_database(listed)
    listed.add_argument("--status", choices=("pending", "published", "failed"))
    listed.add_argument("--limit", type=int, default=50, metavar="N", help="default 50")
    listed.add_argument("--json", action="store_true", help="print JSON")
    listed.set_defaults(command=_outbox_list)


def _add_dlq(commands: Commands) -> None:
    letters = commands.add_parser("dlq", help="look after a dead-letter queue of RabbitMQ")
    asked = letters.add_subparsers(required=True, metavar="command")
    for name, help_text in (
        ("list", "list messages, oldest first"),
        ("show", "print one message with its body, as JSON"),
        ("requeue", "publish a message again, with a fresh number of attempts"),
        ("discard", "delete a message for good"),
    ):
        each = asked.add_parser(name, help=help_text, description=help_text.capitalize() + ".")
        each.add_argument("queue", metavar="QUEUE", help="such as grading.dlq")
        if name == "list":
            each.add_argument("--limit", type=int, default=100, metavar="N", help="default 100")
            each.add_argument("--json", action="store_true", help="print JSON")
        else:
            each.add_argument("id", metavar="ID", help="the message's id")
        if name == "requeue":
            each.add_argument("--to", metavar="QUEUE", help="default: where it came from")
        if name == "discard":
            each.add_argument("--yes", action="store_true", help="do it")
        each.set_defaults(command=_dlq, action=name)


def _add_serve(commands: Commands) -> argparse.ArgumentParser:
    serve = commands.add_parser(
        "serve",
        help="serve the API, with a worker and all that the apps need beside it",
        description=(
            "Serve apps over HTTP and run their jobs until SIGTERM or Ctrl-C: running jobs are "
            "then finished or released in time. Settings come from the environment: PORT, "
            "HOLDFAST_DATA_DIR and those of the apps."
        ),
    )
    _add_apps(serve)
    _add_database(serve)
    serve.add_argument("--host", default="127.0.0.1", help="default 127.0.0.1: this machine only")
    serve.add_argument(
        "--no-worker", action="store_true", help="run no jobs here; start workers elsewhere"
    )
    serve.set_defaults(command=_serve)
    return serve


def _add_apps(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "app", nargs="*", help="an installed app's name, or mypackage.jobs:app; default: all"
    )


def _add_database(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--database",
        metavar="URL",
        help="default: HOLDFAST_DATABASE_URL, else a file in HOLDFAST_DATA_DIR",
    )


def _tour(asked: argparse.Namespace) -> int:
    from holdfast.cli import tour

    return tour.take(pace=asked.pace)


def _migrate(asked: argparse.Namespace) -> int:
    from holdfast.cli import job_commands

    return job_commands.migrate(asked.app, asked.database, check=asked.check, sql=asked.sql)


def _create_key(asked: argparse.Namespace) -> int:
    from holdfast.cli import key_commands

    return key_commands.create(
        asked.database, name=asked.name, organisation=asked.organisation, owner=asked.owner
    )


def _list_keys(asked: argparse.Namespace) -> int:
    from holdfast.cli import key_commands

    return key_commands.list_keys(asked.database)


def _revoke_key(asked: argparse.Namespace) -> int:
    from holdfast.cli import key_commands

    return key_commands.revoke(asked.database, key_id=asked.id)


def _worker(asked: argparse.Namespace) -> int:
    from holdfast.cli import job_commands

    return job_commands.work(
        asked.app,
        asked.database,
        queues=asked.queue,
        concurrency=asked.concurrency,
        until_idle=asked.until_idle,
    )


def _relay(asked: argparse.Namespace) -> int:
    from holdfast.cli import relay_commands

    return relay_commands.relay(asked.app, asked.database, until_idle=asked.until_idle)


def _outbox_list(asked: argparse.Namespace) -> int:
    from holdfast.cli import relay_commands

    if asked.limit < 1:
        raise ValueError(f"--limit must be at least 1, got {asked.limit}")
    return relay_commands.list_messages(
        asked.database, status=asked.status, limit=asked.limit, as_json=asked.json
    )


def _dlq(asked: argparse.Namespace) -> int:
    from holdfast.cli import dead_letter_commands as letters

    if asked.action == "list":
        return letters.list_letters(asked.queue, limit=asked.limit, as_json=asked.json)
    if asked.action == "show":
        return letters.show(asked.queue, asked.id)
    if asked.action == "requeue":
        return letters.requeue(asked.queue, asked.id, to=asked.to)
    return letters.discard(asked.queue, asked.id, confirmed=asked.yes)


def _serve(asked: argparse.Namespace) -> int:
    try:
        from holdfast.cli import serve
        from holdfast.cli.extensions import settings_of
    except ModuleNotFoundError as error:
        if error.name not in {"fastapi", "uvicorn", "starlette", "pydantic"}:
            raise
        raise ValueError("serving needs more: pip install 'holdfast[http]'") from None
    return serve.serve(
        asked.app,
        host=asked.host,
        database=asked.database,
        worker=not asked.no_worker,
        settings=settings_of(asked),
    )


def _pace(text: str) -> float:
    try:
        pace = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None
    if not 0 < pace <= 100:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 100, got {text!r}")
    return pace
