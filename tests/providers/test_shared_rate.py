"""Clients in several processes keep to one rate, which is counted in their store."""

import json
import subprocess
import sys
import time

from tests.support.providers import embeddings

from holdfast import Engine, RateLimit

PROGRAM = """
import asyncio, json, sys
from holdfast import Engine, RateLimit
from holdfast.providers import GeminiClient

URL, SERVER = sys.argv[1:]
RATES = {"minute": RateLimit(per_minute=5), "day": RateLimit(per_day=4)}

async def main():
    found = {}
    async with Engine(URL) as engine:
        for name, limit in RATES.items():
            rate = engine.shared_rate(name, limit)
            client = GeminiClient("key", base_url=f"{SERVER}/{name}", rate=rate)
            print("ready", flush=True)
            sys.stdin.readline()
            results = await asyncio.gather(*(client.generate_embedding("text") for _ in range(6)))
            await client.aclose()
            found[name] = [(result.ok, result.stop_reason, result.retry_at) for result in results]
    print(json.dumps(found), flush=True)

asyncio.run(main())
"""


def start(url, server):
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, url, server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def together(processes):
    """Let all processes call at once, when each of them is ready."""
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


def test_two_processes_together_keep_to_a_minutes_and_a_days_limit(database_url, server):
    server.script(embeddings([1.0]))
    began = time.time()
    processes = [start(database_url, server) for _ in range(2)]
    try:
        together(processes)  # the minute's limit
        together(processes)  # the day's
        found = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for name, allowed, period in (("minute", 5, 60), ("day", 4, 86_400)):
        results = [result for each in found for result in each[name]]
        served = [request for request in server.requests if f"/{name}/" in request.path]
        assert len(served) == allowed == sum(ok for ok, _, _ in results)
        refused = [result for result in results if not result[0]]
        assert {reason for _, reason, _ in refused} == {"RATE_LIMIT"}
        assert all(
            began + period - 1 <= retry_at <= time.time() + period for _, _, retry_at in refused
        )


TAKER = """
import sys
from holdfast import Engine, RateLimit

with Engine(sys.argv[1]).blocking() as engine:
    rate = engine.shared_rate("gemini", RateLimit(per_day=100_000))
    while True:
        rate.reserve_sync(0.0)
        print("taken", flush=True)
"""


def test_a_killed_process_leaves_no_more_than_its_own_place(database_url):
    command = [sys.executable, "-c", TAKER, database_url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        taken = [process.stdout.readline() for _ in range(30)]
    finally:
        process.kill()
    taken += process.communicate()[0].splitlines()
    left = 3
    limit = RateLimit(per_day=len(taken) + 1 + left)
    with Engine(database_url).blocking() as engine:
        rate = engine.shared_rate("gemini", limit)
        waits = [rate.reserve_sync(0.0) for _ in range(left + 2)]
    # Its last place may be taken without having been reported.
    assert waits.count(0) in (left, left + 1)
