"""The gateway as a process: start, requests, end."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import httpx

ROOT = Path(__file__).parents[3]
_START = """
import json, sys
from holdfast_conversion.gateway.__main__ import serve
from holdfast_conversion.gateway.formats import Caps
from holdfast_conversion.gateway.gateway_settings import GatewaySettings, ReaderLimits
settings, limits, caps = map(json.loads, sys.argv[1:4])
bounds = ReaderLimits(**limits, caps=Caps(**caps))
sys.exit(serve(GatewaySettings(port=0, **settings, limits=bounds)))
"""


def environment() -> dict[str, str]:
    """Return an environment with the app on the path and without proxies."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "apps" / "conversion" / "src")])
    kept = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    return {**kept, "PYTHONPATH": path}


class Running:
    """A gateway process."""

    def __init__(self, command: list[str], **extra: str) -> None:
        self._command = command
        self._extra = extra

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment(), **self._extra},
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line = self.process.stdout.readline()
        if "listening on http://" not in line:
            _, complaint = self.process.communicate(timeout=20)
            raise AssertionError(f"the gateway did not start: {line}{complaint}")
        self.announced = line.strip()
        self.address = line.split("listening on ")[1].split()[0]
        self.port = int(self.address.rpartition(":")[2])
        self.client = httpx.Client(base_url=self.address, timeout=60, trust_env=False, verify=False)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.stop()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        """Send a signal, wait, and return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(20)
        self.process.kill()
        return self.process.wait()

    def convert(self, body: Any, mapping: str = "text", **headers: str) -> httpx.Response:
        """Request a conversion; underscores in header names become dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(
            "/convert", params={"mapping": mapping}, content=body, headers=named
        )

    def health(self) -> dict[str, Any]:
        answer = self.client.get("/health")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def children(self) -> list[int]:
        """Return the process ids of the children, as Linux sees them."""
        pid = self.process.pid
        return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def start(
    settings: dict[str, Any], limits: dict[str, Any], caps: dict[str, Any] | None = None
) -> Running:
    """Return a gateway with these settings, not yet started."""
    values = [json.dumps(part) for part in (settings, limits, caps or {})]
    return Running([sys.executable, "-c", _START, *values])


def ticks(pid: int) -> int:
    """Return the CPU time of a process in clock ticks, usually hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
