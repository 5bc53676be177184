"""`holdfast doctor`."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from holdfast.cli.options import CARE, AppNames, AsJson, Database
from holdfast.cli.output import Record, show

if TYPE_CHECKING:
    from holdfast.bootstrap import Engine
    from holdfast.cli.doctor_checks import Finding
    from holdfast.jobs.declare.app import App
    from holdfast.settings import Environment

APP = typer.Typer()
APPS = (APP,)
_COLUMNS = ("check", "level", "finding", "advice")


@APP.command(rich_help_panel=CARE)
def doctor(apps: AppNames = None, database: Database = None, as_json: AsJson = False) -> int:
    """Say what is wrong and what to do about it; exit code 1 if there is a problem.

    Looks at the settings, the schema, the clocks, workers, leases, breakers, the outbox and the
    disks, and changes nothing. Where apps are named, the probes of their downstreams are called.
    """
    from holdfast.cli.app_discovery import find_declared
    from holdfast.cli.doctor_checks import Level, check_settings
    from holdfast.cli.worker_setup import existing_database
    from holdfast.settings import Environment, Settings

    environment = Environment(os.environ)
    settings = Settings.load(environment)
    declared = find_declared(apps, os.environ) if apps else []
    url = existing_database(settings, database)
    findings = check_settings(environment)
    findings += asyncio.run(_examine(url, declared, environment))
    show([_record(finding) for finding in findings], _COLUMNS, as_json=as_json)
    return 1 if any(finding.level is Level.PROBLEM for finding in findings) else 0


async def _examine(url: str, apps: "list[App]", environment: "Environment") -> "list[Finding]":
    from holdfast import bootstrap
    from holdfast.cli.doctor_checks import CHECKS, Examination, Finding, Level, check_schema
    from holdfast.errors import HoldfastError

    schema = await check_schema(url, apps)
    if schema.level is Level.PROBLEM:
        return [schema]  # to open an embedded store would migrate it
    findings = [schema]
    try:
        async with bootstrap.Engine(url) as engine:
            examination = Examination(engine, environment, apps, _folders(engine, environment))
            for check in CHECKS:
                findings += await check(examination)
    except HoldfastError as error:
        advice = "check the address and the server"
        findings.append(Finding("database", Level.PROBLEM, str(error), advice))
    return findings


def _folders(engine: "Engine", environment: "Environment") -> list[Path]:
    """Return the folders that Holdfast writes to: of an embedded store's file, and of the data."""
    from holdfast.settings import Settings

    path: Path | None = getattr(engine.store, "path", None)
    folders = [Settings.load(environment).data_dir, *([] if path is None else [path.parent])]
    return list(dict.fromkeys(folder.absolute() for folder in folders if folder.is_dir()))


def _record(finding: "Finding") -> Record:
    return {
        "check": finding.check,
        "level": finding.level,
        "finding": finding.finding,
        "advice": finding.advice,
    }
