"""Run a module that ends with its parent: `python -m holdfast.cli.parent_watch MODULE ARGS…`.

Its standard input is a pipe from the parent. However the parent ends, kill -9 included, the system
closes the pipe; the module then gets SIGTERM.
"""

import os
import runpy
import signal
import sys
import threading


def main() -> None:
    """Run the module that the command line names."""
    _, module, *arguments = sys.argv
    threading.Thread(target=_watch, name="parent-watch", daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _watch() -> None:
    while os.read(0, 1024):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
