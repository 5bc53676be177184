"""Run the benchmarks: `python -m benchmarks [suite ...]`."""

import argparse
import sys
from importlib import import_module

from benchmarks.measure import Row, Scale, choose_scale
from benchmarks.report import print_table, write_charts, write_results

SUITES = {
    "in_process": "guarded calls and breakers, compared with other libraries",
    "defaults": "durable jobs as they come, and one at a time, compared with their peers",
    "queues_sqlite": "durable jobs on SQLite, compared with Huey",
    "queues_postgres": "durable jobs on PostgreSQL: also PGQueuer, Procrastinate and raw SQL",
    "queues_memory": "durable jobs, compared with queues in memory: BullMQ, Dramatiq, Celery",
    "latency": "from enqueue to start on an idle worker",
    "growth": "the time of a claim on tables of millions of rows",
    "operations": "what operators look at, with a million finished jobs",
    "lanes": "thousands of hosts, each a downstream of its own",
    "leases": "the CPU time of extending 100 leases",
    "outbox": "messages committed with rows and relayed to RabbitMQ, compared with raw aio-pika",
    "reliable_task": "Celery tasks with Holdfast's guarantees, compared with plain ones",
    "uploads": "uploads, compared with a bare ASGI app; the response time of a manual retry",
    "ingestion": "documents by address, compared with a bare loop that fetches and stores them",
    "telemetry": "what metrics and traces cost",
    "pdf_reading": "manuals read by the gateway, compared with pdftotext, pypdf and pdfminer.six",
}


def main() -> int:
    """Run the chosen suites; return 0 if every goal was met, else 1."""
    listed = "\n".join(f"  {name:16s} {what}" for name, what in SUITES.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=f"suites:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "suite", nargs="*", choices=[[], *SUITES], metavar="suite", help="default: all suites"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help="a trial run with few samples; writes no results"
    )
    size.add_argument("--full", action="store_true", help="grow the tables to millions of rows")
    options = parser.parse_args()
    scale = Scale.QUICK if options.quick else Scale.FULL if options.full else Scale.NORMAL
    choose_scale(scale)
    met = True
    for suite in options.suite or list(SUITES):
        rows: list[Row] = import_module(f"benchmarks.{suite}").rows()
        print_table(rows)
        if scale is not Scale.QUICK:
            write_charts(rows, suite)
            print(f"\nwritten: {write_results(rows, suite)}")
        met = met and all(row.met for row in rows)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
