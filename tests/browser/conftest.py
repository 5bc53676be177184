"""Real pages in a real browser, over the real service in its own processes."""

import os
import re
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.apps.conversion.service import Service
from tests.browser.page_session import PageSession
from tests.support.browser import chromium

LONG = 40_000
"""Milliseconds; generous, for a busy machine."""
expect.set_options(timeout=LONG)


CALM = {
    "MAX_UPLOAD_BYTES": "2000000",
    "RETRY_BASE_DELAY": "20",
    # The breaker has tests of its own.
    "CIRCUIT_THRESHOLD": "1000",
    "CIRCUIT_FAILURE_RATE": "1",
    # A running job is notified of its cancellation at the next heartbeat.
    "LEASE_MS": "20000",
    "LEASE_EXTEND_MS": "300",
}


# This folder is a package, so that these end with its last test and not with the session: while
# Playwright runs, no other test of its thread can have an event loop.


@pytest.fixture(scope="package")
def browser():
    """The browser."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="package")
def serve(tmp_path_factory):
    """A function that starts a service."""
    started = []

    def begin(**settings):
        service = Service(tmp_path_factory.mktemp("service"), "--chaos", **settings)
        started.append(service)
        service.start()
        service.gateway = gateway_of(service)
        return service

    yield begin
    for service in started:
        service.__exit__()


@pytest.fixture(scope="package")
def service(serve):
    """A service whose breaker stays closed."""
    return serve(**CALM)


def gateway_of(service: Service) -> str:
    """Return the address of the built-in gateway, as the service printed it."""
    found = re.compile(r"gateway: listening on (http://\S+)")
    return str(
        service.until(
            lambda: next((hit[1] for line in service.output if (hit := found.search(line))), None)
        )
    )


@pytest.fixture
def chaos(service):
    """A function that sets or clears the gateway's fault; the fixture clears it at the end."""

    def ask(mode=None, **fault):
        url = f"{service.gateway}/chaos"
        if mode is None:
            answer = service.client.delete(url)
        else:
            answer = service.client.put(url, json={"mode": mode, **fault})
        assert answer.status_code < 300, answer.text

    yield ask
    ask()


@pytest.fixture
def frozen(service):
    """Pause the gateway process until the block ends."""

    @contextmanager
    def freeze():
        pid = service.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        (gateway,) = [
            int(each)
            for each in children
            if b"gateway" in Path(f"/proc/{each}/cmdline").read_bytes()
        ]
        os.kill(gateway, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(gateway, signal.SIGCONT)

    return freeze


@pytest.fixture
def open_session(browser, service):
    """Open the front page in a fresh session; console errors fail the test."""
    opened = []

    def build(path="/", **options):
        session = PageSession(browser, service, **options)
        opened.append(session)
        session.page.goto(service.url + path)
        return session

    yield build
    for session in opened:
        session.context.close()
    for session in opened:
        assert session.complaints() == []


@pytest.fixture
def session(open_session):
    return open_session()
