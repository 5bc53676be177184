"""Run the benchmarks: `python -m benchmarks [suite ...]`."""

import argparse
import sys
from importlib import import_module

from benchmarks.measure import Row, Scale, choose_scale
from benchmarks.report import print_table, write_charts, write_results

SUITES = {
    "in_process": "guarded calls and breakers beside their peers",
    "queues_sqlite": "durable jobs on SQLite beside Huey",
    "queues_postgres": "durable jobs on PostgreSQL beside PGQueuer, Procrastinate and raw SQL",
    "queues_memory": "durable jobs beside queues in memory: BullMQ, Dramatiq, Celery",
    "latency": "from enqueue to start on an idle worker",
    "growth": "what a claim costs over millions of rows",
    "leases": "what keeping 100 leases alive costs",
    "uploads": "uploads beside a bare ASGI sink, and how soon a retry is answered",
}


def main() -> int:
    """Run the suites asked for; the exit code says whether every goal was met."""
    listed = "\n".join(f"  {name:16s} {what}" for name, what in SUITES.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=f"suites:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suite", nargs="*", choices=[[], *SUITES], help="default: all of them")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="only try it out; nothing is written")
    size.add_argument("--full", action="store_true", help="grow the tables to millions of rows")
    asked = parser.parse_args()
    scale = Scale.QUICK if asked.quick else Scale.FULL if asked.full else Scale.NORMAL
    choose_scale(scale)
    met = True
    for suite in asked.suite or list(SUITES):
        rows: list[Row] = import_module(f"benchmarks.{suite}").rows()
        print_table(rows)
        if scale is not Scale.QUICK:
            write_charts(rows, suite)
            print(f"\nwritten: {write_results(rows, suite)}")
        met = met and all(row.met for row in rows)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
