"""The process of `holdfast worker`."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Union

from holdfast import bootstrap
from holdfast.cli.app_discovery import find_workable
from holdfast.cli.forced_exit import GRACE, ForcedExit, run_worker
from holdfast.cli.startup import entered, opened
from holdfast.cli.telemetry_setup import exposed_metrics, trace_jobs
from holdfast.cli.usage import UsageError, guess
from holdfast.cli.worker_setup import (
    database_address,
    rare_collections,
    set_up_log,
    worker_options,
)
from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.declare.app import App
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.signals import stop_on_signals
from holdfast.jobs.worker.worker import Worker
from holdfast.settings import Environment, Settings

if TYPE_CHECKING:
    from holdfast.http import ServedApp


def work(
    apps: Sequence[str],
    database: str | None = None,
    *,
    queues: Sequence[str] | None = None,
    concurrency: int | None = None,
    until_idle: bool = False,
) -> int:
    """Run the jobs of `apps`, or of all that are installed, until stopped.

    An app is named as `serve` takes it: by an installed package's name, or `mypackage.jobs:app`.
    Options that are left out come from the settings. A store that does not answer is waited for.
    Returns the exit code; where handlers do not stop, the process ends here, see `forced_exit`.
    """
    settings = Settings.load(Environment(os.environ))
    options = worker_options(settings, concurrency)
    found = find_workable(apps, os.environ)
    set_up_log(settings, os.environ)
    url = database_address(settings, database)

    declared = [app if isinstance(app, App) else app.app for app in found]
    delivering = bootstrap.delivering_app(Environment(os.environ))
    declared += [] if delivering is None else [delivering]
    if queues is not None:
        _check_queues(queues, declared)
        options = replace(options, queues=tuple(queues))
    exits = ForcedExit(options.shutdown_seconds + GRACE)
    with rare_collections(), exits, exposed_metrics(settings, declared) as (_, listeners):
        limits = bootstrap.default_owner_limits(Environment(os.environ))
        engine = bootstrap.Engine(url, apps=declared, listeners=listeners, owner_limits=limits)
        trace_jobs(settings, engine)
        return run_worker(_work(engine, found, options, until_idle, exits), exits)


def _check_queues(queues: Sequence[str], apps: Sequence[App]) -> None:
    known = {kind.queue for app in apps for kind in app.kinds}
    for queue in queues:
        if queue not in known:
            names = ", ".join(sorted(known)) or "none"
            raise UsageError(
                f"--queue {queue}: no job of these apps uses this queue (known: {names})"
                f"{guess(queue, known)}"
            )


async def _work(
    engine: bootstrap.Engine,
    found: Sequence[Union[App, "ServedApp"]],
    options: WorkerOptions,
    until_idle: bool,
    exits: ForcedExit,
) -> Worker:
    worker, stopped = engine.worker(options), asyncio.Event()

    def stop() -> None:
        stopped.set()
        worker.stop()

    async with AsyncExitStack() as stack:
        stack.enter_context(stop_on_signals(stop, exits.begin))
        if await opened(engine, stack, worker.worker_id, stopped) and await entered(
            _sidecars(found), stack, stopped
        ):
            await worker.run(until_idle=until_idle)
    return worker


def _sidecars(apps: Sequence[Union[App, "ServedApp"]]) -> AbstractAsyncContextManager[Any]:
    """Return a context that runs the sidecars of `apps`."""
    wanted = [each for app in apps if not isinstance(app, App) for each in app.sidecars()]
    if not wanted:
        return nullcontext()
    from holdfast.cli.sidecars import Sidecars

    return Sidecars(wanted, SYSTEM_CLOCK)
