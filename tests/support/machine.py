"""Install what the tests need: `python -m tests.support.machine`, before they run.

Tests would get it themselves, but a test has only so much time, and Debian's tool serves one at a
time while two processes test.
"""

import sys

from tests.apps.conversion.real_pdfs import Missing, find_pdfs, find_witnesses
from tests.support.browser import BrowserMissing, find_chromium
from tests.support.pgbouncer import find_pgbouncer
from tests.support.postgres_server import PostgresMissing, find_binaries


def main() -> None:
    for get in (find_chromium, find_binaries, find_pgbouncer, find_witnesses, find_pdfs):
        try:
            get()
        except (BrowserMissing, PostgresMissing, Missing) as missing:
            sys.stderr.write(f"tests: {missing}\n")


if __name__ == "__main__":
    main()
