"""The process of `holdfast relay`."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack

from holdfast import bootstrap
from holdfast.cli.app_discovery import find_workable, installed_names
from holdfast.cli.relay_setup import BROKER, make_relay
from holdfast.cli.startup import opened
from holdfast.cli.telemetry_setup import exposed_metrics
from holdfast.cli.usage import UsageError
from holdfast.cli.worker_setup import database_address, rare_collections, set_up_log
from holdfast.jobs.declare.app import App
from holdfast.jobs.worker.signals import stop_on_signals
from holdfast.settings import Environment, Settings


def relay(apps: Sequence[str], database: str | None = None, *, until_idle: bool = False) -> int:
    """Publish the messages of the outbox until SIGTERM or Ctrl-C, or until there is none.

    They go to the RabbitMQ at RABBITMQ_URL, where the queues of `apps` are declared; without that
    setting to the jobs of `apps`. Where none is named, these are all that are installed. A broker
    or a store that does not answer is waited for.
    """
    environment = Environment(os.environ)
    settings = Settings.load(environment)
    needed = bool(apps or installed_names()) or environment.text(BROKER) is None
    found = find_workable(apps, os.environ) if needed else []
    set_up_log(settings, os.environ)
    declared = [app if isinstance(app, App) else app.app for app in found]
    engine = bootstrap.Engine(database_address(settings, database), apps=declared)
    relay = make_relay(environment, engine, found)
    if relay is None:
        raise UsageError(f"nothing takes messages: set {BROKER}, or name an app whose jobs do")

    async def run() -> None:
        stopped = asyncio.Event()

        def stop() -> None:
            stopped.set()
            relay.stop()

        async with AsyncExitStack() as stack:
            stack.enter_context(stop_on_signals(stop))
            if await opened(engine, stack, "holdfast relay", stopped):
                await relay.run(until_idle=until_idle)

    with rare_collections(), exposed_metrics(settings, declared) as (registry, _):
        if registry is not None:
            from holdfast.telemetry.prometheus import RelayCollector

            registry.register(RelayCollector(relay))
        asyncio.run(run())
    return 0
