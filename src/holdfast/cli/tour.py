"""A tour of guarded calls, against a real server on this machine that fails on cue."""

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.events import AttemptFailed, BreakerChanged, Event
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy
from holdfast.resilience.service import RetryService

NAME = "prices"


class _PriceServer(ThreadingHTTPServer):
    daemon_threads = True
    cue: tuple[int, ...] = ()
    """Statuses to answer with, one a request; 200 once they are used up."""


class _PriceHandler(BaseHTTPRequestHandler):
    server: _PriceServer

    def do_GET(self) -> None:
        status, self.server.cue = (*self.server.cue, 200)[0], self.server.cue[1:]
        body = b"42" if status == 200 else b""
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Keep the terminal for the tour."""


@contextmanager
def _serving() -> Iterator[tuple[_PriceServer, str]]:
    server = _PriceServer(("127.0.0.1", 0), _PriceHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_address[1]}/tea"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _show(event: Event) -> None:
    if isinstance(event, AttemptFailed):
        follows = "no more" if event.delay is None else f"next in {event.delay:.2f} s"
        print(
            f"    attempt {event.number} failed: {event.error}; {event.category.lower()}, {follows}"
        )
    elif isinstance(event, BreakerChanged):
        print(f"    circuit {event.before} -> {event.after}: {event.cause}")


def take(*, pace: float = 1.0, clock: Clock = SYSTEM_CLOCK) -> int:
    """Take the tour, with every wait `pace` times as long; return the exit code."""
    service = RetryService(clock=clock, listeners=[_show])
    breaker = BreakerPolicy(consecutive_failures=4, open_for=1.5 * pace, trial_calls=1)
    backoff = Exponential(base=0.3 * pace, multiplier=2, cap=10, jitter=0.2)
    policy = RetryPolicy(max_attempts=3, backoff=backoff, deadline=20, breaker=breaker)
    with _serving() as (server, url):
        print(f"a price service runs at {url}; it fails on cue")

        def call(story: str, *cue: int) -> None:
            print(f"\n{story}")
            server.cue = cue or server.cue
            result = service.execute_sync(lambda: _price(url), policy, NAME)
            outcome = f"the price is {result.value}" if result.ok else f"gave up: {result.error}"
            print(f"  {outcome} (attempts: {result.attempts}, {result.stop_reason})")

        call("1. Two failures pass by themselves:", 503, 503)
        call("2. The server asks for a second of peace (Retry-After):", 429)
        call("3. A request that can never succeed is not repeated:", 404)
        call("4. The service goes down:", *[503] * 5)
        call("5. After four failures in a row the circuit opens, in the middle of a call:")
        call("6. While it is open, calls are refused without bothering the service:")
        server.cue = ()
        print(f"\n  (the service recovers; waiting {breaker.open_for:g} s)")
        clock.sleep(breaker.open_for)
        call("7. A trial call finds that it is back, and the circuit closes:")
    _summary(service)
    return 0


def _price(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - our own server
            return int(response.read())
    except urllib.error.HTTPError as error:
        error.close()  # it is a response too, and holds the connection
        raise


def _summary(service: RetryService) -> None:
    figures = service.metrics(NAME)
    print(
        f"\n{figures.total_operations} calls, {figures.successful_operations} succeeded, "
        f"{figures.total_retries} retries, {figures.circuit_breaker_trips} trip, "
        f"{figures.time_in_open_state:.1f} s open, p95 {figures.p95_latency:.2f} s"
    )
    print("Next: docs/tutorial/first-guarded-call.md")
