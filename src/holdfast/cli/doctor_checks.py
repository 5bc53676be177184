"""The checks of `holdfast doctor`: each returns what it found, and what to do about it."""

import shutil
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from holdfast import bootstrap
from holdfast.cli.output import moment
from holdfast.cli.relay_setup import relay_options
from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import HoldfastError
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.maintenance.probes import probe_failure
from holdfast.jobs.model import JobStatus
from holdfast.jobs.views import JobFilter
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.settings import Environment, unknown_names

_MOST_DIFFERENCE = 2.0
"""Seconds that the clocks of this machine and of the database may differ."""
_OVERDUE = 60.0
"""Seconds after its end at which a lease should have been noticed by some worker."""
_LOOKED_AT = 1000
"""Running jobs that are looked at."""
_LEAST_FREE = 1024**3
"""Bytes that should be free on a disk."""
_MOST_PROBED = 20
"""Downstreams of one declaration with a key that are probed."""


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    """Something that a person did or should know; nothing is broken."""
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and what to do about it."""

    check: str
    level: Level
    finding: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Examination:
    """What the checks look at.

    Attributes:
        engine: open, without apps.
        environment: has the settings.
        apps: those whose downstreams are probed.
        folders: on whose disks there must be room.
    """

    engine: bootstrap.Engine
    environment: Environment
    apps: Sequence[App] = ()
    folders: Sequence[Path] = ()
    clock: Clock = SYSTEM_CLOCK


def check_settings(environment: Environment) -> list[Finding]:
    """Look for settings that do not exist, such as misspelt ones."""
    lines = unknown_names(environment.values)
    return [Finding("settings", Level.WARNING, line, "unset it, or correct it") for line in lines]


async def check_schema(url: str, apps: Sequence[App]) -> Finding:
    """Say whether the database answers and what its schema lacks; change nothing."""
    try:
        missing = await bootstrap.missing_migrations(url, apps)
    except HoldfastError as error:
        return Finding("schema", Level.PROBLEM, str(error), "check --database and the server")
    if missing:
        return Finding("schema", Level.PROBLEM, f"missing: {missing}", "run: holdfast migrate")
    return Finding("schema", Level.OK, "the schema is up to date")


async def check_version(found: Examination) -> list[Finding]:
    """Name the database; a store refuses to open on an SQLite that is too old."""
    sqlite = found.engine.database.dialect == "sqlite"
    sql = "SELECT 'SQLite ' || sqlite_version()" if sqlite else "SELECT version()"
    ((version,),) = await found.engine.database.fetch(sql)
    return [Finding("database", Level.OK, str(version))]


async def check_clock(found: Examination) -> list[Finding]:
    """Compare this machine's clock with the database's."""
    before = found.clock.wall()
    store = await found.engine.store.ping()
    after = found.clock.wall()
    difference = (before + after) / 2 - store
    if abs(difference) <= _MOST_DIFFERENCE + (after - before) / 2:
        return [Finding("clock", Level.OK, f"{difference:+.3f} s from the database's")]
    line = f"this machine's clock is {difference:+.1f} s from the database's"
    advice = "synchronise both with NTP: times that programs compute, such as run_at, are off"
    return [Finding("clock", Level.PROBLEM, line, advice)]


async def check_leases(found: Examination) -> list[Finding]:
    """Look for jobs whose lease has ended and that no worker has rescued."""
    now = await found.engine.store.ping()
    running = await found.engine.list(JobFilter(statuses=(JobStatus.PROCESSING,)), limit=_LOOKED_AT)
    stuck = [
        job
        for job in running.jobs
        if job.lease_expires_at is not None and job.lease_expires_at < now - _OVERDUE
    ]
    if not stuck:
        return [Finding("leases", Level.OK, "no lease is overdue")]
    line = f"{len(stuck)} running jobs have lost their lease, such as {stuck[-1].id}"
    return [Finding("leases", Level.PROBLEM, line, "start a worker: holdfast worker; it rescues")]


async def check_breakers(found: Examination) -> list[Finding]:
    """Look for breakers that are not closed."""
    now = await found.engine.store.ping()
    findings = []
    for record in await found.engine.downstreams.troubled():
        since = moment(record.circuit.opened_at)
        line = f"{record.name} is {record.state_at(now)} since {since:%Y-%m-%d %H:%M:%S} UTC"
        if record.circuit.held:
            findings.append(
                Finding("breakers", Level.WARNING, f"{line}, held by hand",
                        f"when it is back: holdfast downstream release {record.name}")
            )  # fmt: skip
        elif record.state_at(now) is CircuitState.OPEN:
            findings.append(
                Finding("breakers", Level.PROBLEM, f"{line}, last error {record.last_error}",
                        f"mend it; to try now: holdfast downstream release {record.name}")
            )  # fmt: skip
        else:
            findings.append(Finding("breakers", Level.WARNING, line, "trial calls are under way"))
    return findings or [Finding("breakers", Level.OK, "all are closed")]


async def check_outbox(found: Examination) -> list[Finding]:
    """Look for messages that are not published in time, and for failed ones."""
    backlog, stale = await found.engine.outbox.backlog(), relay_options(found.environment)
    findings = []
    if backlog.lag > stale.stale_after:
        line = f"{backlog.pending} messages wait, the oldest for {backlog.lag:.0f} s"
        advice = "start a relay: holdfast relay; its log says why it does not publish"
        findings.append(Finding("outbox", Level.PROBLEM, line, advice))
    if backlog.failed:
        line, advice = f"{backlog.failed} messages have failed", "holdfast outbox list, requeue"
        findings.append(Finding("outbox", Level.WARNING, line, advice))
    return findings or [Finding("outbox", Level.OK, f"{backlog.pending} messages wait")]


async def check_workers(found: Examination) -> list[Finding]:
    """Look for jobs that wait while no worker can run them."""
    engine = found.engine
    workers, stats = await engine.workers.list(), await engine.stats()
    ready = sum(lane.ready for lane in stats.lanes)
    if not workers:
        level = Level.PROBLEM if ready else Level.WARNING
        line = f"no worker runs, and {ready} jobs are ready"
        return [Finding("workers", level, line, "start one: holdfast worker APP")]
    findings = []
    for kind, waiting in (await _unknown_kinds(engine, [each.id for each in workers])).items():
        line = f"{waiting} jobs of {kind} wait, and no worker knows this kind"
        advice = "start a worker with the app that declares it"
        findings.append(Finding("workers", Level.PROBLEM, line, advice))
    return findings or [Finding("workers", Level.OK, f"{len(workers)} workers, {ready} jobs ready")]


async def _unknown_kinds(engine: bootstrap.Engine, workers: Iterable[str]) -> dict[str, int]:
    """Return the kinds that no worker knows; one of `workers` asks, and it must be registered."""
    for worker in workers:
        found = dict(await engine.store.unknown_kinds(worker))
        if found:
            return found
    return {}


async def check_pauses(found: Examination) -> list[Finding]:
    """Name the queues and kinds that are paused."""
    findings = []
    for scope, control in (("queues", found.engine.queues), ("kinds", found.engine.kinds)):
        for state in await control.list():
            if state.paused:
                line = f"{state.name} is paused since {moment(state.paused_at):%Y-%m-%d %H:%M} UTC"
                advice = f"holdfast {scope} resume {state.name}"
                findings.append(Finding("pauses", Level.WARNING, line, advice))
    return findings


async def check_dead_letters(found: Examination) -> list[Finding]:
    """Count the jobs that wait for a person."""
    count = (await found.engine.stats()).dead_letters
    if not count:
        return []
    advice = "holdfast dead list --groups, then holdfast dead requeue or discard"
    return [Finding("dead letters", Level.WARNING, f"{count} jobs wait for a person", advice)]


async def check_downstreams(found: Examination) -> list[Finding]:
    """Call the probes that the apps declare."""
    findings = []
    names = [record.name for record in await found.engine.downstreams.list()]
    for downstream in _probed(found.apps):
        covered = [name for name in names if downstream.covers(name)][:_MOST_PROBED]
        for name in covered if downstream.key is not None else [downstream.name]:
            error = await probe_failure(downstream, name)
            if error is None:
                findings.append(Finding("downstreams", Level.OK, f"{name} passes its probe"))
            else:
                line = f"{name} fails its probe: {error}"
                findings.append(
                    Finding("downstreams", Level.PROBLEM, line, "mend it, or its address")
                )
    return findings


def _probed(apps: Iterable[App]) -> list[Downstream]:
    declared = (kind.downstream for app in apps for kind in app.kinds)
    found = {each.name: each for each in declared if each is not None and each.probe is not None}
    return list(found.values())


async def check_disk(found: Examination) -> list[Finding]:
    """Look for disks that are nearly full."""
    findings = []
    for folder in found.folders:
        free = shutil.disk_usage(folder).free
        if free < _LEAST_FREE:
            line = f"{folder}: {free // 1024**2} MiB are free"
            advice = "make room: a full disk stops every write"
            findings.append(Finding("disk", Level.PROBLEM, line, advice))
        else:
            line = f"{folder}: {free // 1024**3} GiB are free"
            findings.append(Finding("disk", Level.OK, line))
    return findings


CHECKS: tuple[Callable[[Examination], Awaitable[list[Finding]]], ...] = (
    check_version,
    check_clock,
    check_workers,
    check_leases,
    check_breakers,
    check_downstreams,
    check_outbox,
    check_dead_letters,
    check_pauses,
    check_disk,
)
"""All checks of an open store, in the order of the report."""
