"""The arguments of the commands for operators: backup, restore, intake, erase."""

import argparse
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

NAMES = ("backup", "erase", "intake", "restore")


def add_to(commands: Commands) -> None:
    """Add the commands for operators."""
    _add_backup(commands)
    _add_restore(commands)
    _add_intake(commands)
    _add_erase(commands)


def _add_backup(commands: Commands) -> None:
    backup = commands.add_parser(
        "backup",
        help="copy the database and the files as one consistent set",
        description=(
            "Write a backup to a new folder while the service runs: the database, the files below "
            "HOLDFAST_DATA_DIR, and a manifest with checksums."
        ),
    )
    backup.add_argument("target", metavar="TARGET", help="a folder that is not there, or empty")
    _add_database(backup)
    backup.set_defaults(command=_backup)


def _add_restore(commands: Commands) -> None:
    restore = commands.add_parser(
        "restore",
        help="put a backup into an empty data folder",
        description=(
            "Check every file of a backup and put it into HOLDFAST_DATA_DIR, which must be empty: "
            "nothing is overwritten."
        ),
    )
    restore.add_argument("source", metavar="SOURCE", help="the folder of the backup")
    _add_database(restore)
    restore.set_defaults(command=_restore)


def _add_intake(commands: Commands) -> None:
    intake = commands.add_parser(
        "intake",
        help="keep new work out, and let it in again",
        description=(
            "While the intake is paused, all servers answer uploads, documents and submissions "
            "with 503. What is there is worked on."
        ),
    )
    actions = intake.add_subparsers(required=True, metavar="action")
    shown = actions.add_parser("state", help="say whether it is paused")
    shown.add_argument("--json", action="store_true", help="print JSON")
    shown.set_defaults(command=_show_intake)
    paused = actions.add_parser("pause", help="take nothing in from now on")
    paused.add_argument("--reason", required=True, metavar="TEXT", help="a line for operators")
    paused.set_defaults(command=_pause_intake)
    resumed = actions.add_parser("resume", help="take in again")
    resumed.set_defaults(command=_resume_intake)
    for action in (shown, paused, resumed):
        _add_database(action)


def _add_erase(commands: Commands) -> None:
    erased = commands.add_parser(
        "erase",
        help="delete everything of an owner",
        description=(
            "Delete all jobs, files and webhooks of an owner, and what the apps named, or all that "
            "are installed, keep. Running jobs are cancelled first. It can be repeated."
        ),
    )
    erased.add_argument("owner", metavar="OWNER", help="the owner of the jobs")
    erased.add_argument("app", nargs="*", help="an installed app's name, or mypackage.jobs:app")
    erased.add_argument("--yes", action="store_true", help="do it")
    erased.add_argument("--json", action="store_true", help="print JSON")
    _add_database(erased)
    erased.set_defaults(command=_erase)


def _add_database(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--database",
        metavar="URL",
        help="default: HOLDFAST_DATABASE_URL, else a file in HOLDFAST_DATA_DIR",
    )


def _backup(asked: argparse.Namespace) -> int:
    from holdfast.cli import backup_commands

    return backup_commands.write_backup(asked.target, asked.database)


def _restore(asked: argparse.Namespace) -> int:
    from holdfast.cli import backup_commands

    return backup_commands.restore_backup(asked.source, asked.database)


def _show_intake(asked: argparse.Namespace) -> int:
    from holdfast.cli import intake_commands

    return intake_commands.show(asked.database, as_json=asked.json)


def _pause_intake(asked: argparse.Namespace) -> int:
    from holdfast.cli import intake_commands

    return intake_commands.pause(asked.database, reason=asked.reason)


def _resume_intake(asked: argparse.Namespace) -> int:
    from holdfast.cli import intake_commands

    return intake_commands.resume(asked.database)


def _erase(asked: argparse.Namespace) -> int:
    from holdfast.cli import erase_commands

    return erase_commands.erase(
        asked.owner, asked.app, asked.database, confirmed=asked.yes, as_json=asked.json
    )
