"""The options that the service adds to `holdfast serve`."""

import argparse


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `--chaos`, which writes the setting `GATEWAY_CHAOS`."""
    parser.add_argument(
        "--chaos",
        dest="GATEWAY_CHAOS",
        action="store_const",
        const="1",
        help="let the built-in gateway misbehave on command",
    )
