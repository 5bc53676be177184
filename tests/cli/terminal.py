"""Run a command of `holdfast` in a process with a terminal of its own."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

# The terminal must be the process's own, or Ctrl-C and resizing would signal nobody. A shell lets
# what it starts in the background ignore Ctrl-C, and that is inherited.
_ALONE = ("setsid", "--ctty", "env", "--default-signal=INT")
SOON = 60.0
"""Seconds after which a test gives up; reached only when something is broken."""


class Terminal:
    """A process whose standard input and output, and by default its errors, are a terminal."""

    def __init__(self, *words, columns=120, lines=30, **environment):
        self._master, worker = pty.openpty()
        self.output = ""
        self.resize(columns, lines)
        variables = {
            name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS"}
        }
        self.process = subprocess.Popen(
            [*_ALONE, sys.executable, "-m", "holdfast", *words],
            stdin=worker,
            stdout=worker,
            stderr=worker,
            env={**variables, "TERM": "xterm", **environment},
        )
        os.close(worker)

    def resize(self, columns, lines):
        """Change the size; the process is signalled as by a real terminal."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, text):
        """Type `text`; "\\x03" is Ctrl-C."""
        os.write(self._master, text.encode())

    def until(self, text):
        """Read until `text` was printed since the last call; return what was read."""
        seen, end = "", time.monotonic() + SOON
        while text not in seen:
            assert time.monotonic() < end, f"{text!r} is not in {self.output!r}"
            seen += self._read() or ""
        return seen

    def wait(self):
        """Read to the end, and return the exit code."""
        while self._read() is not None:
            pass
        code = self.process.wait(SOON)
        os.close(self._master)
        return code

    def _read(self):
        """Return what was printed, "" for nothing yet, None at the end."""
        if not select.select([self._master], [], [], 0.1)[0]:
            return ""
        try:
            found = os.read(self._master, 65536).decode(errors="replace")
        except OSError:  # Linux says so when the last process has closed it
            return None
        self.output += found
        return found or None
