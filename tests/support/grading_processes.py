"""The processes of grading with a broker: Celery workers, and a language model that is scripted.

The model charges once for all calls with one idempotency key, and keeps the account.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from tests.support.processes import children_of
from tests.support.providers import chatted
from tests.support.waiting import SOON

from holdfast.testing.downstream import Behaviour, Exchange, Request, ScriptedDownstream, ok, status

_MARK = re.compile(r"mark-(\w+)")
_TOLERANCE = 0.05
"""Seconds by which the clocks of two processes may differ."""
_CRITERION = {"score": 7.0, "comment": "Good."}
GRADE = {
    **dict.fromkeys(("task", "fluency", "coherence", "vocabulary", "grammar"), _CRITERION),
    "feedback": "Well done.",
}
"""An answer of the model for either skill."""


class CeleryWorker:
    """A worker process; it and its children are killed together."""

    def __init__(
        self,
        name: str,
        environment: Mapping[str, str],
        log: Path,
        *,
        concurrency: int = 2,
        app: str = "holdfast_grading.celery_app",
    ) -> None:
        self._log = log
        self._name = f"{name}@grading"
        self._before = self._said()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "celery", "-A", app, "worker",
                    "-c", str(concurrency), "-n", self._name, "-l", "INFO",
                    "--without-gossip", "--without-mingle", "--without-heartbeat",
                ],
                env=dict(environment), stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip

    def _said(self) -> int:
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return text.count(f"{self._name} ready")

    def wait_until_ready(self) -> None:
        """Return once it consumes."""
        end = time.monotonic() + SOON
        while self._said() == self._before:
            assert self._process.poll() is None, self._log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < end, "the worker did not start in time"
            time.sleep(0.05)

    def kill_children(self) -> None:
        """End the processes that run its tasks with SIGKILL, if it runs; it starts others."""
        if self._process.poll() is None:
            for child in children_of(self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

    def kill(self) -> None:
        """End it and its children with SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class ScriptedModel:
    """An OpenAI-compatible server that grades texts; a context manager.

    A text names its submission by a word `mark-NAME`. A plan says what happens to the calls for it;
    without one, and after its end, the text is graded.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: dict[str, list[Behaviour]] = {}
        self._allowed_at: dict[str, float] = {}
        self._keys: set[str] = set()
        self._server = ScriptedDownstream(self._behave)
        self.for_all: Behaviour | None = None
        """Takes the place of all plans while it is set."""
        self.calls: Counter[str] = Counter()
        """How often it was called, by the mark of the text."""
        self.charged: Counter[str] = Counter()
        """For how many idempotency keys it has charged, by the mark of the text."""
        self.early: list[tuple[str, float]] = []
        """Calls that came before the time that `ask_to_wait` has set, and how many seconds."""

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    @property
    def url(self) -> str:
        """Its address, as `CHATMOCK_BASE_URL` takes it."""
        return f"{self._server.url}/v1"

    def plan(self, mark: str, *behaviours: Behaviour) -> None:
        """Answer the calls for a mark like this, one after the other, and then grade it."""
        self._plans[mark] = list(behaviours)

    def ask_to_wait(self, mark: str, seconds: float) -> None:
        """Answer the first call for a mark with 429, and note whether the next one is early."""

        async def refuse(exchange: Exchange) -> None:
            with self._lock:
                self._allowed_at[mark] = time.monotonic() + seconds
            await status(429, retry_after=seconds)(exchange)

        self.plan(mark, refuse)

    def say(self, text: str, recording: bytes) -> str:
        """Transcribe every recording as `text`; return the address of `recording`."""
        self._server.script(ok(json={"text": text}), path="/v1/audio/transcriptions")
        wav = {"Content-Type": "audio/wav"}
        self._server.script(ok(recording, headers=wav), path="/recording.wav")
        return f"{self._server.url}/recording.wav"

    def release(self) -> None:
        """Answer the calls that hang."""
        self._server.release()

    async def graded(self, exchange: Exchange) -> None:
        """Answer with a grade, and charge for it unless its key was charged for before."""
        mark = mark_of(exchange.request)
        with self._lock:
            key = exchange.request.headers.get("idempotency-key", f"none {self.calls.total()}")
            self.charged[mark] += key not in self._keys
            self._keys.add(key)
        await chatted(json.dumps(GRADE))(exchange)

    async def _behave(self, exchange: Exchange) -> None:
        mark = mark_of(exchange.request)
        with self._lock:
            self.calls[mark] += 1
            plan = self._plans.get(mark)
            behaviour = self.for_all or (plan.pop(0) if plan else self.graded)
            wait = self._allowed_at.pop(mark, 0.0) - time.monotonic()
            if wait > _TOLERANCE:
                self.early.append((mark, wait))
        await behaviour(exchange)


def mark_of(request: Request) -> str:
    """Return the mark in the text of a request; empty where there is none."""
    found = _MARK.search(request.body.decode(errors="replace"))
    return found.group(1) if found else ""


def wait_for(fact: Callable[[], Any], seconds: float = SOON) -> Any:
    """Poll `fact` until it is true, and return its value."""
    end = time.monotonic() + seconds
    while not (answer := fact()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return answer
