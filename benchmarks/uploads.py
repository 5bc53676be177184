"""Uploads to the conversion service, compared with bare ASGI apps; its memory and response time.

The peer of the goal streams the body into a file and syncs it, as the service does, and nothing
else: it parses no form, computes no hash and records no job. The peer that discards the body shows
the limit of the web server itself.
"""

import http.client
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http.cookies import SimpleCookie
from pathlib import Path

from benchmarks.measure import Goal, Row, best_rates, percentile, rate_ratios, sized
from holdfast.testing.downstream import ScriptedDownstream, status

OURS = "Holdfast's conversion service"
STORES = "a bare ASGI app that stores the body"
DROPS = "a bare ASGI app that discards the body"

MEBIBYTE = 1024 * 1024
LARGE = 50 * MEBIBYTE - 64 * 1024
"""The largest accepted file, less some room for the rest of the form."""
AT_ONCE = 20
BOUNDARY = "----WebKitFormBoundary7MA4YWxkTrZu0gW"

SINK = """
import os, sys, tempfile, uvicorn
stores, folder = sys.argv[1] == "stores", sys.argv[3]

async def sink(scope, receive, send):
    fd, path = tempfile.mkstemp(dir=folder)
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
        if stores:
            os.write(fd, message.get("body", b""))
    if stores:
        os.fsync(fd)
    os.close(fd)
    os.unlink(path)
    await send({"type": "http.response.start", "status": 201, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})

uvicorn.run(sink, port=int(sys.argv[2]), http="h11", lifespan="off", log_level="error")
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A server process that accepts uploads."""

    pid: int
    port: int

    def upload(self, body: bytes, cookie: str = "") -> None:
        """Send a form, and wait for the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"content-type": f"multipart/form-data; boundary={BOUNDARY}", "cookie": cookie}
        connection.request("POST", "/api/upload", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status in {200, 201}, text

    def memory(self, name: str) -> int:
        """Return VmRSS (current) or VmHWM (peak memory), in bytes."""
        found = re.search(
            rf"^{name}:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE
        )
        assert found is not None
        return int(found[1]) * 1024


def form(size: int) -> bytes:
    """Return a form with a file of random bytes after a PDF header."""
    return (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n'
        "Content-Type: application/pdf\r\n\r\n%PDF-1.4\n"
    ).encode() + secrets.token_bytes(size) + f"\r\n--{BOUNDARY}--\r\n".encode()  # fmt: skip


@contextmanager
def service(folder: Path, *options: str, gateway: str = "http://127.0.0.1:9") -> Iterator[Server]:
    """Run `holdfast serve` while the block runs."""
    environment = {**os.environ, "PORT": "0", "GATEWAY_URL": gateway}
    environment["HOLDFAST_DATA_DIR"] = str(folder / "data")
    command = [sys.executable, "-m", "holdfast", "serve", "holdfast_conversion.app:create"]
    with started([*command, *options], environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Holdfast is at "):
                yield Server(process.pid, int(line.rpartition(":")[2]))
                return
        raise RuntimeError("the service did not start")


@contextmanager
def sink(folder: Path, what: str) -> Iterator[Server]:
    """Run a bare ASGI app while the block runs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-c", SINK, what, str(port), str(folder)]
    with started(command, dict(os.environ)) as process:
        wait_for_port(port)
        yield Server(process.pid, port)


@contextmanager
def started(command: list[str], environment: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """Run a process while the block runs."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def wait_for_port(port: int) -> None:
    """Wait until the port accepts connections."""
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"port {port} does not accept connections")


def throughput(folder: Path) -> Row:
    """Measure the throughput of one large upload, in turns."""

    def rate(server: Server) -> float:
        body = form(LARGE)
        begin = time.perf_counter()
        server.upload(body)
        return LARGE / MEBIBYTE / (time.perf_counter() - begin)

    with ExitStack() as stack:
        servers = {
            OURS: stack.enter_context(service(folder, "--no-worker")),
            STORES: stack.enter_context(sink(folder, "stores")),
            DROPS: stack.enter_context(sink(folder, "drops")),
        }
        rates = best_rates(
            {name: partial(rate, server) for name, server in servers.items()},
            rounds=sized(4, 20),
        )
    return Row(
        "one upload of 50 MB, stored durably",
        ratios=rate_ratios(rates, OURS),
        counts={"MB/s": round(rates[OURS])},
        goals=[Goal(STORES, 0.8)],
    )


def memory(folder: Path) -> Row:
    """Measure the memory growth of the server during concurrent large uploads."""
    growth = []
    with service(folder, "--no-worker") as server, ThreadPoolExecutor(AT_ONCE) as pool:
        small = form(1000)
        list(pool.map(lambda _: server.upload(small), range(3 * AT_ONCE)))
        body = form(LARGE)
        for _ in range(sized(1, 3)):
            Path(f"/proc/{server.pid}/clear_refs").write_text("5")
            before = server.memory("VmRSS")
            list(pool.map(lambda _: server.upload(body), range(AT_ONCE)))
            growth.append((server.memory("VmHWM") - before) / MEBIBYTE)
    bound = "grows by, MB"
    return Row(
        f"memory while {AT_ONCE} uploads of 50 MB run at once",
        counts={bound: round(max(growth), 1)},
        at_most={bound: 16},
    )


def retries(folder: Path) -> Row:
    """Measure the response time of a manual retry while a worker runs the retried jobs."""
    samples: list[float] = []
    with (
        ScriptedDownstream(status(400)) as gateway,
        service(folder, gateway=gateway.url) as server,
    ):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        cookie = ""

        def request(method: str, path: str, body: bytes = b"", kind: str = "") -> tuple[int, dict]:
            nonlocal cookie
            connection.request(method, path, body, {"cookie": cookie, "content-type": kind})
            answer = connection.getresponse()
            if header := answer.getheader("set-cookie"):
                cookie = "; ".join(f"{k}={v.value}" for k, v in SimpleCookie(header).items())
            return answer.status, json.loads(answer.read())

        kind = f"multipart/form-data; boundary={BOUNDARY}"
        ids = [request("POST", "/api/upload", form(1000), kind)[1]["job"]["id"] for _ in range(20)]
        while len(samples) < sized(50, 500):
            for job_id in ids:
                while request("GET", f"/api/jobs/{job_id}")[1]["job"]["status"] != "failed":
                    time.sleep(0.01)
                time.sleep(0.05)  # stay below the rate limit of ten writes per second
                begin = time.perf_counter()
                code, _ = request("POST", f"/api/jobs/{job_id}/retry")
                samples.append((time.perf_counter() - begin) * 1000)
                assert code == 200
    return Row(
        "manual retry, response time",
        counts={
            "p50, ms": round(percentile(samples, 0.5), 2),
            "p99, ms": round(percentile(samples, 0.99), 2),
        },
        at_most={"p99, ms": 20},
    )


def rows() -> list[Row]:
    """Run every row of this file."""
    found = []
    for measure in (throughput, memory, retries):
        with tempfile.TemporaryDirectory() as folder:
            found.append(measure(Path(folder)))
    return found
