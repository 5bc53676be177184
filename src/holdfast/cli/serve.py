"""Serve the API with a worker and the sidecars of the apps, under one supervisor."""

import asyncio
import contextlib
import errno
import logging
import os
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast import bootstrap
from holdfast.cli.app_discovery import find_apps
from holdfast.cli.forced_exit import GRACE, ForcedExit, run_worker
from holdfast.cli.http_server import Server, uvicorn_server
from holdfast.cli.relay_setup import dead_letter_queues, make_relay
from holdfast.cli.sidecars import Sidecars
from holdfast.cli.startup import entered, opened
from holdfast.cli.telemetry_setup import count_jobs, trace_jobs
from holdfast.cli.worker_setup import (
    FILES,
    database_address,
    prepare_data_dir,
    set_up_log,
    worker_options,
)
from holdfast.clock import SYSTEM_CLOCK
from holdfast.http import DiskRoom, HttpSettings, ServedApp, ServerState, create_app
from holdfast.jobs.declare.app import App
from holdfast.jobs.worker.signals import stop_on_signals
from holdfast.jobs.worker.worker import Worker
from holdfast.outbox import Relay
from holdfast.settings import BadSetting, Environment, Settings
from holdfast.telemetry.prometheus import StoreMetrics

_log = logging.getLogger("holdfast.serve")


class CannotListen(BadSetting):
    """The port is taken, or cannot be listened on."""


def serve(
    apps: Sequence[str],
    *,
    host: str = "127.0.0.1",
    database: str | None = None,
    worker: bool = True,
    settings: Mapping[str, str] | None = None,
) -> int:
    """Serve `apps`, or all that are installed, until SIGTERM or Ctrl-C.

    `settings` come before those of the environment. A store that does not answer is waited for;
    requests that arrive meanwhile are answered after that.
    """
    environment = {**os.environ, **(settings or {})}
    loaded = Settings.load(Environment(environment))
    if database is not None:
        loaded = replace(loaded, database_url=database)
    # The port first: a second start on it must not touch anything of the first.
    with listening(host, loaded.port) as listener:
        prepare_data_dir(loaded.data_dir)
        served = find_apps(apps, environment)
        set_up_log(loaded, environment)
        exits = ForcedExit(loaded.shutdown_seconds + GRACE)
        service = _Service(loaded, served, listener, exits, worker=worker, environment=environment)
        with exits:
            return run_worker(service.run(), exits)


class _Service:
    def __init__(
        self,
        settings: Settings,
        apps: Sequence[ServedApp],
        listener: socket.socket,
        exits: ForcedExit,
        *,
        worker: bool,
        environment: Mapping[str, str],
    ) -> None:
        self._settings = settings
        self._apps = apps
        self._listener = listener
        self._exits = exits
        self._wants_worker = worker
        self._stop = asyncio.Event()
        self._worker: Worker | None = None
        self._working: asyncio.Task[None] | None = None
        self._environment = environment

    async def run(self) -> Worker | None:
        url = database_address(self._settings)
        sidecars = Sidecars([each for app in self._apps for each in app.sidecars()], SYSTEM_CLOCK)
        with stop_on_signals(self._asked_to_stop, self._exits.begin):
            async with contextlib.AsyncExitStack() as stack:
                apps = self._declared()
                registry, listeners = count_jobs(apps)
                limits = bootstrap.default_owner_limits(Environment(self._environment))
                engine = bootstrap.Engine(url, apps=apps, listeners=listeners, owner_limits=limits)
                trace_jobs(self._settings, engine)
                if not await opened(engine, stack, "holdfast serve", self._stop):
                    return None
                if not await entered(sidecars, stack, self._stop) or self._stop.is_set():
                    return None
                http = replace(self._http_settings(), ready=(sidecars.missing, self._idle))
                environment = Environment(self._environment)
                relay = make_relay(environment, engine, self._apps)
                dlq = dead_letter_queues(environment)
                metrics = StoreMetrics(engine, engine.outbox, registry).exposition
                app = create_app(
                    engine, self._apps, http, outbox=engine.outbox, dlq=dlq, metrics=metrics
                )
                state = app.state.server
                await self._serve(engine, uvicorn_server(app, state.stopping), state, relay)
        return self._worker

    def _declared(self) -> list[App]:
        """Return the apps, and the one that delivers webhooks."""
        delivering = bootstrap.delivering_app(Environment(self._environment))
        apps = [app.app for app in self._apps]
        return apps if delivering is None else [*apps, delivering]

    async def _serve(
        self, engine: bootstrap.Engine, server: Server, state: ServerState, relay: Relay | None
    ) -> None:
        serving = asyncio.create_task(server.serve(sockets=[self._listener]))
        relaying = None if relay is None else asyncio.create_task(relay.run())
        options = worker_options(self._settings)
        if self._wants_worker:
            self._worker = engine.worker(options)
            self._working = asyncio.create_task(self._worker.run())
        stopping = asyncio.create_task(self._stop.wait())
        await _started(server, serving)
        self._announce(state)
        await self._until_end({serving, stopping, *([] if relaying is None else [relaying])})
        # Streams end by themselves, then no request is taken in, then what runs is finished.
        state.stopping.set()
        server.should_exit = True
        if self._worker is not None:
            _say_what_is_finished(self._worker.running, options.shutdown_seconds)
            self._worker.stop()
        if relay is not None:
            relay.stop()
        stopping.cancel()
        failures = await asyncio.gather(
            *(task for task in (serving, self._working, relaying) if task is not None),
            return_exceptions=True,
        )
        for failure in failures:
            # A server that is stopped while it starts may be cancelled; that is not the reason.
            if isinstance(failure, BaseException) and not isinstance(
                failure, asyncio.CancelledError
            ):
                raise failure

    async def _until_end(self, ends: "set[asyncio.Task[Any]]") -> None:
        """Wait for one of `ends`, or until the worker ends without having been asked to finish."""
        working = self._working
        if working is not None:
            await asyncio.wait({working, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if not self._has_finished():
                return
            if not any(task.done() for task in ends):
                _log.info("the worker has finished, as it was asked to; the API is still served")
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

    def _has_finished(self) -> bool:
        worker, working = self._worker, self._working
        if worker is None or working is None or not worker.finishing or not working.done():
            return False
        return not working.cancelled() and working.exception() is None

    def _asked_to_stop(self) -> None:
        if self._stop.is_set() and self._worker is not None:
            self._worker.stop()
        self._stop.set()

    def _idle(self) -> str | None:
        if not self._wants_worker:
            return None
        if self._working is None or self._working.done():
            return "no worker runs"
        reachable = self._worker is not None and self._worker.reachable
        return None if reachable else "the worker does not reach the database"

    def _http_settings(self) -> HttpSettings:
        folder = self._settings.data_dir
        return HttpSettings(
            secret_key=self._settings.secret_key or kept_secret(folder / "secret.key"),
            admin_token=self._settings.admin_token or kept_secret(folder / "admin.token"),
            reader_token=self._settings.reader_token,
            local_access=self._settings.local_access,
            worker_elsewhere=not self._wants_worker,
            secure_cookies=self._settings.secure_cookies,
            trusted_proxies=self._settings.trusted_proxies,
            disk_room=DiskRoom(folder / FILES, self._settings.min_free_bytes),
        )

    def _announce(self, state: ServerState) -> None:
        host, port = self._listener.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        print(f"Holdfast is at {address}", flush=True)
        print(f"To operate it, open {address}{state.admin.new_link()} (works once)", flush=True)


def _say_what_is_finished(running: int, seconds: float) -> None:
    if running:
        jobs = "1 job is" if running == 1 else f"{running} jobs are"
        line = f"stopping: {jobs} finishing (up to {seconds:g} s); Ctrl-C again stops now"
        print(line, flush=True)


async def _started(server: Server, serving: "asyncio.Task[None]") -> None:
    while not server.started and not serving.done():
        await SYSTEM_CLOCK.sleep_async(0.01)


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Listen on `port` of `host` while the block runs.

    Raises:
        CannotListen: it is taken, or may not be listened on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns off the delay of small packets only where the protocol is named.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(2048)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                line = f"port {port} is taken: is Holdfast running already? PORT chooses another"
                raise CannotListen(line) from None
            raise CannotListen(f"cannot listen on {host}:{port}: {error.strerror}") from None
        yield listener


def kept_secret(path: Path) -> str:
    """Return the secret in the file at `path`, made when it is first asked for."""
    fresh = secrets.token_urlsafe(32)
    # Written to another name and linked: two starts at once agree on one, and none reads half.
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        if not path.exists():
            beside.touch(mode=0o600, exist_ok=False)
            beside.write_text(fresh, "utf-8")
            with contextlib.suppress(FileExistsError):
                os.link(beside, path)
        found = path.read_text("utf-8").strip()
    except OSError as error:
        raise BadSetting(f"{path} cannot be kept there: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)
    if len(found) < 16:
        raise BadSetting(f"{path} holds no secret; delete it, and another is made")
    return found
