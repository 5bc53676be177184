"""Run the program that is killed."""

import asyncio
import sys

from tests.support.notes import add_forever

asyncio.run(add_forever(sys.argv[1]))
