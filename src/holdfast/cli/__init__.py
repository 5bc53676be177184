"""The command line: parsing, and nothing else."""

import argparse
from collections.abc import Sequence

from holdfast.cli import tour


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` asks for and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="holdfast", description="The reliability layer for Python work that must finish."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    run = commands.add_parser(
        "run",
        help="take a tour: guarded calls against a real local server that misbehaves",
        description=(
            "Start a server on this machine that fails on cue, call it under a policy, and show "
            "what retries, Retry-After and the breaker do. Takes a few seconds and ends by itself."
        ),
    )
    run.add_argument(
        "--pace",
        type=_pace,
        default=1.0,
        metavar="FACTOR",
        help="stretch (2) or shorten (0.1) every wait; default 1",
    )
    asked = parser.parse_args(argv)
    try:
        return tour.take(pace=asked.pace)
    except KeyboardInterrupt:
        return 130


def _pace(text: str) -> float:
    try:
        pace = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None
    if not 0 < pace <= 100:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 100, got {text!r}")
    return pace
