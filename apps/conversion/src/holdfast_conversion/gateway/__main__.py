"""Run the gateway: `python -m holdfast_conversion.gateway [--port N] [--chaos]`.

`python -m holdfast_conversion.gateway chaos MODE …` asks a running one for a fault.
"""

# ruff: noqa: T201 - a command prints

import argparse
import errno
import json
import logging
import os
import random
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import replace

from holdfast import Clock, SystemClock
from holdfast.settings import BadSetting, Environment
from holdfast_conversion.gateway.chaos import Mode
from holdfast_conversion.gateway.gateway_settings import GatewaySettings

EXIT_USAGE = 2
EXIT_FAILED = 1
_MOST = 100_000
_SHUTDOWN_SECONDS = 5
_IDLE_SECONDS = 30
"""Longer than clients keep an idle connection, so that none is closed as it is used again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["chaos"]:
        return _ask_for_chaos(words[1:])
    try:
        settings = _settings(words)
        return serve(settings)
    except BadSetting as error:
        print(f"gateway: {error}", file=sys.stderr)
        return EXIT_USAGE


def serve(settings: GatewaySettings, clock: Clock | None = None) -> int:
    """Serve until SIGINT or SIGTERM; return the exit status."""
    # Only what serves pays for loading a web server; asking for a fault does not.
    import uvicorn

    from holdfast.children import ChildFailed
    from holdfast_conversion.gateway.listening_socket import AnnouncingServer, ListeningSocket

    clock = clock or SystemClock()
    try:
        listener = ListeningSocket(settings.host, settings.port, clock, any_port=settings.any_port)
    except OSError as error:
        print(f"gateway: {_why_not(settings, error)}", file=sys.stderr)
        return EXIT_FAILED
    from holdfast_conversion.gateway.server import create_app

    app = create_app(settings, clock, listener, random.Random())
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    server = AnnouncingServer(config, listener, " (faults at /chaos)" if settings.chaos else "")
    listener.serve_with(server)
    try:
        server.run(sockets=[listener.socket])
    except KeyboardInterrupt:
        pass  # uvicorn has shut down in good order and says so this way
    except ChildFailed as error:
        print(f"gateway: {error}", file=sys.stderr)
    return 0 if server.started else EXIT_FAILED


def _parser(defaults: GatewaySettings) -> argparse.ArgumentParser:
    limits = defaults.limits
    parser = argparse.ArgumentParser("holdfast gateway", description="Convert PDFs to XML.")
    parser.add_argument("--host", default=defaults.host)
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        help="a name that clients call this host by; addresses and localhost need none",
    )
    parser.add_argument("--port", type=int, default=defaults.port, help="0 takes a free one")
    parser.add_argument(
        "--any-port", action="store_true", help="take a free port where --port is taken"
    )
    parser.add_argument(
        "--children", type=int, default=defaults.children, help="files converted at once"
    )
    parser.add_argument(
        "--cpu-seconds", type=int, default=limits.cpu_seconds, help="computing time for one file"
    )
    parser.add_argument(
        "--wall-seconds", type=float, default=limits.wall_seconds, help="elapsed time for one file"
    )
    parser.add_argument("--chaos", action="store_true", help="allow faults on command at /chaos")
    parser.add_argument("--verbose", action="store_true", help="log every refusal")
    return parser


def _settings(words: list[str]) -> GatewaySettings:
    defaults = GatewaySettings()
    options = _parser(defaults).parse_args(words)
    if not 0 <= options.port <= 65535:
        raise BadSetting(f"--port must be from 0 to 65535, not {options.port}")
    for name in ("children", "cpu_seconds", "wall_seconds"):
        if not 0 < getattr(options, name) < _MOST:
            option, value = name.replace("_", "-"), getattr(options, name)
            raise BadSetting(f"--{option} must be above 0 and below {_MOST}, not {value}")
    logging.basicConfig(
        level=logging.INFO if options.verbose else logging.WARNING,
        format="gateway: %(message)s",
        stream=sys.stderr,
    )
    size = Environment(os.environ).whole("MAX_UPLOAD_BYTES", defaults.max_upload_bytes)
    seconds = {"cpu_seconds": options.cpu_seconds, "wall_seconds": options.wall_seconds}
    return GatewaySettings(
        host=options.host,
        names=tuple(options.name),
        port=options.port,
        any_port=options.any_port,
        children=options.children,
        most_requests=max(defaults.most_requests, 2 * options.children),
        max_upload_bytes=size,
        chaos=options.chaos,
        limits=replace(defaults.limits, **seconds),
    )


def _why_not(settings: GatewaySettings, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {settings.port} is taken; choose another with --port"
    return f"cannot listen on {settings.host}:{settings.port}: {error.strerror}"


def _ask_for_chaos(words: list[str]) -> int:
    parser = argparse.ArgumentParser("holdfast gateway chaos", description="Ask for a fault.")
    parser.add_argument("mode", choices=[*Mode, "off"])
    parser.add_argument("--share", type=float, help="share of requests, 0 to 1")
    parser.add_argument("--seconds", type=float, help="for how long")
    parser.add_argument("--requests", type=int, help="for how many requests")
    parser.add_argument("--status", type=int, help="which 5xx (fail)")
    parser.add_argument("--delay", type=float, help="seconds before an answer (slow)")
    parser.add_argument("--port", type=int, default=GatewaySettings().port)
    options = vars(parser.parse_args(words))
    port, mode = options.pop("port"), options["mode"]
    fault = {name: value for name, value in options.items() if value is not None}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/chaos",
        method="DELETE" if mode == "off" else "PUT",
        data=None if mode == "off" else json.dumps(fault).encode(),
        headers={"content-type": "application/json"},
    )
    # No proxy of the environment stands between two processes of one machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            print(answer.read().decode())
        return 0
    except urllib.error.HTTPError as error:
        print(f"gateway: {_line_of(error)}", file=sys.stderr)
    except OSError as error:
        print(f"gateway: nothing answers on port {port}: {error}", file=sys.stderr)
    return EXIT_FAILED


def _line_of(error: urllib.error.HTTPError) -> str:
    if error.code == 404:
        return "this gateway was not started with --chaos"
    try:
        return str(json.loads(error.read())["error"]["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"HTTP {error.code}"


if __name__ == "__main__":
    sys.exit(main())
