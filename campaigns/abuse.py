"""Hostile PDFs, hostile answers of a gateway, and hostile clients, while others are served.

None may get a 5xx out of a server, or a process beyond its memory; and all the while the requests
of other users succeed.
"""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from tests.apps.conversion.gateway_process import start
from tests.apps.conversion.pdf_writer import Text, document

from campaigns.hostile_answers import HostileAnswer, hostile_answers
from campaigns.hostile_clients import HostileRequest, RawClient, hostile_requests
from campaigns.hostile_files import HostileFile, hostile_files
from campaigns.plan import CampaignOutcome, Plan
from campaigns.service import ServiceProcess, until
from campaigns.temporary_store import temporary_store
from holdfast.testing.downstream import Behaviour, Request, ScriptedDownstream, ok, reply

_MEBIBYTE = 1024 * 1024
_CHILD_MEMORY = 512 * _MEBIBYTE
"""The setting of the gateway's children."""
_CHILD_CPU = 6
_SERVER_MEMORY = 400 * _MEBIBYTE
"""Bytes of memory that a server may use: it handles files in pieces, whatever their size."""
_CHILDREN = 3
_AT_ONCE = 2
"""Hostile files at once: one child is left for other users."""
_LONGEST_WAIT = 30.0
"""Seconds until another user's request is answered, on a busy machine."""
_JOBS_END = 240.0
_GOOD = document([Text(72, 700, "somebody else")])
_SETTINGS = {
    "GATEWAY_TIMEOUT": "2000",
    # Each answer is judged by itself: one call, and no pause of all calls.
    "RETRY_MAX_ATTEMPTS": "1",
    "CIRCUIT_THRESHOLD": "1000000",
    "CIRCUIT_FAILURE_RATE": "1",
}
_FLOOD = 3000
"""More than a session may write in a burst, with what is allowed in the time that they take."""
_STREAMS = 30
"""More than a session may have open."""


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign: files against a gateway, then answers and clients against a service."""
    outcome = CampaignOutcome()
    rng = plan.rng("cases")
    damaged = plan.pick(80, 6)
    files = list(hostile_files(rng, damaged=damaged, full=plan.full))
    answers = list(hostile_answers())
    requests = list(hostile_requests(rng, noise=plan.pick(40, 4)))
    if not plan.full:
        files, answers, requests = files[1::2], answers[:20], requests[:24]
    outcome.figures["files"] = _send_files(outcome, files)
    with (
        temporary_store(plan.store, plan.folder) as store,
        ScriptedDownstream() as gateway,
        ServiceProcess(
            "holdfast_conversion.app:create",
            plan.folder,
            store.url,
            {**_SETTINGS, "GATEWAY_URL": gateway.url},
        ) as service,
        MemoryWatch(outcome, "service", [service.pid], _SERVER_MEMORY),
        bystander(outcome, "service", lambda: _served(service)),
    ):
        outcome.figures["answers"] = _give_answers(outcome, service, gateway, answers)
        outcome.figures["requests"] = _send_requests(outcome, service, requests)
        outcome.figures["floods"] = _flood(outcome, service)
    outcome.figures["cases"] = sum(
        int(outcome.figures[part]) for part in ("files", "answers", "requests", "floods")
    )
    return outcome


# -- files -----------------------------------------------------------------------------------------


def _send_files(outcome: CampaignOutcome, files: Sequence[HostileFile]) -> int:
    limits = {"memory_bytes": _CHILD_MEMORY, "cpu_seconds": _CHILD_CPU, "wall_seconds": 120}
    with (
        start({"children": _CHILDREN}, limits) as gateway,
        MemoryWatch(outcome, "gateway", [gateway.process.pid], _SERVER_MEMORY),
        MemoryWatch(outcome, "child", gateway.children, _CHILD_MEMORY, "VmPeak"),
        bystander(outcome, "gateway", lambda: gateway.convert(_GOOD).status_code == 200),
        ThreadPoolExecutor(_AT_ONCE) as threads,
        httpx.Client(base_url=gateway.address, timeout=300, trust_env=False) as client,
    ):

        def send(file: HostileFile) -> None:
            answer = client.post("/convert", params={"mapping": file.mapping}, content=file.pdf)
            what = f"file {file.name}: {answer.status_code} {answer.text[:200]}"
            outcome.expect(answer.status_code < 500, what)

        list(threads.map(send, files))
    return len(files)


# -- answers ---------------------------------------------------------------------------------------


def _give_answers(
    outcome: CampaignOutcome,
    service: ServiceProcess,
    gateway: ScriptedDownstream,
    answers: Sequence[HostileAnswer],
) -> int:
    good = ok(b"<document/>", headers={"Content-Type": "application/xml"})

    def choose(request: Request) -> Behaviour:
        found = re.search(rb"answer (\d+)", request.body)
        return answers[int(found[1])].behaviour if found else good

    gateway.script(reply(choose))
    # A good one first: the breaker opens where all calls of its window have failed.
    outcome.expect(_served(service), "answers: a good one is not taken")
    with service.client() as client:
        client.get("/api/jobs").raise_for_status()
        jobs = {_uploaded(client, f"answer {number}"): each for number, each in enumerate(answers)}

        def finished() -> bool:
            listed = _jobs(client)
            return all(listed[each]["status"] in {"complete", "failed"} for each in jobs)

        outcome.expect(until(finished, _JOBS_END), "answers: not all jobs ended")
        listed = _jobs(client)
    for job_id, answer in jobs.items():
        status = listed[job_id]["status"]
        wanted = status == "failed" or (answer.harmless and status == "complete")
        outcome.expect(wanted, f"answer {answer.name}: the job is {status}")
    return len(answers)


def _uploaded(client: httpx.Client, text: str) -> str:
    content = f"%PDF-1.4\n{text}\n".encode()
    file = {"file": (f"{text}.pdf", content, "application/pdf")}
    answer = client.post("/api/upload", data={"mapping": "text"}, files=file).raise_for_status()
    return str(answer.json()["job"]["id"])


def _jobs(client: httpx.Client) -> dict[str, dict[str, Any]]:
    page = client.get("/api/jobs", params={"limit": 200}).raise_for_status().json()
    return {job["id"]: job for job in page["jobs"]}


def _served(service: ServiceProcess) -> bool:
    """Convert a file as a user who has just opened the page."""
    with service.client() as client:
        client.get("/api/jobs").raise_for_status()
        job_id = _uploaded(client, "somebody else")
        return until(lambda: _jobs(client)[job_id]["status"] == "complete", _LONGEST_WAIT)


# -- clients ---------------------------------------------------------------------------------------


def _send_requests(
    outcome: CampaignOutcome, service: ServiceProcess, requests: Sequence[HostileRequest]
) -> int:
    port = urlsplit(service.url).port
    assert port is not None

    def send(request: HostileRequest) -> None:
        client = RawClient(port)
        stack.callback(client.close)
        client.send(request)
        if request.held:
            return
        if request.cut:
            client.close()
            return
        try:
            status = client.status()
        except TimeoutError:
            outcome.findings.append(f"request {request.name}: neither answered nor closed")
            return
        outcome.expect(status is None or status < 500, f"request {request.name}: {status}")

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(4) as threads:
        list(threads.map(send, requests))
        outcome.expect(_served(service), "requests: another user is not served beside them")
    return len(requests)


def _flood(outcome: CampaignOutcome, service: ServiceProcess) -> int:
    """Write and listen without ever bringing a cookie; return how many kinds of flood."""
    with service.client() as client:

        def write() -> int:
            client.cookies.clear()
            return client.post("/api/jobs/x/cancel").status_code

        # The allowance grows meanwhile, so a busy machine needs more writes to use it up.
        statuses: set[int] = set()
        for _ in range(_FLOOD):
            statuses.add(write())
            if 429 in statuses:
                break
        outcome.expect(statuses == {403, 429}, f"flood of writes: {statuses}")
    with contextlib.ExitStack() as stack:
        opened = [_open_stream(stack, service) for _ in range(_STREAMS)]
        outcome.expect(set(opened) == {200, 429}, f"flood of streams: {set(opened)}")
        with service.client() as client:
            client.get("/api/jobs")
            with client.stream("GET", "/api/events") as answer:
                status = answer.status_code
            outcome.expect(status == 200, f"flood of streams: a session gets {status}")
        outcome.expect(_served(service), "floods: another user is not served beside them")
    return 2


def _open_stream(stack: contextlib.ExitStack, service: ServiceProcess) -> int:
    client = stack.enter_context(service.client())
    return stack.enter_context(client.stream("GET", "/api/events")).status_code


# -- what is watched meanwhile ---------------------------------------------------------------------


@contextlib.contextmanager
def bystander(outcome: CampaignOutcome, name: str, served: Callable[[], bool]) -> Iterator[None]:
    """Let another user ask again and again while the block runs; all must be answered in time."""
    over = threading.Event()
    waits: list[float] = []

    def ask() -> None:
        while not over.wait(0.5):
            began = time.monotonic()
            try:
                held = served()
            except Exception as error:
                outcome.findings.append(f"{name}: another user got {error!r}")
                continue
            waits.append(time.monotonic() - began)
            outcome.expect(held, f"{name}: another user was not served")

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    longest = max(waits, default=0.0)
    outcome.figures[f"{name}_others_served"] = len(waits)
    outcome.figures[f"{name}_longest_wait_seconds"] = round(longest, 2)
    outcome.expect(longest < _LONGEST_WAIT, f"{name}: another user waited {longest:.1f} s")


class MemoryWatch:
    """Watch the memory of processes while the block runs: `VmHWM` is resident, `VmPeak` all."""

    def __init__(
        self,
        outcome: CampaignOutcome,
        name: str,
        pids: Iterable[int] | Callable[[], Iterable[int]],
        most: int,
        field: str = "VmHWM",
    ) -> None:
        self._outcome = outcome
        self._name = name
        self._pids = pids
        self._most = most
        self._field = field
        self._highest = 0
        self._over = threading.Event()

    def __enter__(self) -> None:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        figure = round(self._highest / _MEBIBYTE)
        self._outcome.figures[f"{self._name}_mebibytes"] = figure
        limit = self._most // _MEBIBYTE
        self._outcome.expect(figure <= limit, f"{self._name}: {figure} of {limit} MiB were used")

    def _watch(self) -> None:
        while True:
            for pid in self._pids() if callable(self._pids) else self._pids:
                self._highest = max(self._highest, memory_of(pid, self._field))
            if self._over.wait(0.1):
                return


def memory_of(pid: int, field: str) -> int:
    """Return the highest use of memory of a process so far, in bytes; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text("ascii")
    except OSError:
        return 0
    found = re.search(rf"{field}:\s+(\d+) kB", text)
    return int(found[1]) * 1024 if found else 0
