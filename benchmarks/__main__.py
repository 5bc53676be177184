"""Run the benchmarks: `python -m benchmarks [suite ...]`."""

import argparse
import sys
from importlib import import_module

from benchmarks.report import print_table, write_charts, write_results

SUITES = {"in_process": "guarded calls and breakers beside their peers"}


def main() -> int:
    """Run the suites asked for; the exit code says whether every goal was met."""
    listed = "\n".join(f"  {name:12s} {what}" for name, what in SUITES.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=f"suites:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suite", nargs="*", choices=[[], *SUITES], help="default: all of them")
    suites = parser.parse_args().suite or list(SUITES)
    met = True
    for suite in suites:
        rows = import_module(f"benchmarks.{suite}").rows()
        print_table(rows)
        write_charts(rows, suite)
        print(f"\nwritten: {write_results(rows, suite)}")
        met = met and all(row.met for row in rows)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
