"""Settings from the environment: read once at the start, each checked where it is read.

A bad value is a `BadSetting`, whose message is one line that names it. Durations are given in whole
milliseconds, also where the name does not end in `_MS`; code gets seconds.
"""

import difflib
import ipaddress
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.errors import ErrorCode, HoldfastError

__all__ = [
    "BadSetting",
    "Environment",
    "Settings",
    "check_tokens",
    "named_tokens",
    "unknown_names",
]

KNOWN = (
    "HOLDFAST_ADMIN_TOKEN",
    "HOLDFAST_DATABASE_URL",
    "HOLDFAST_DATA_DIR",
    "HOLDFAST_LOCAL_ACCESS",
    "HOLDFAST_LOG_FORMAT",
    "HOLDFAST_METRICS_HOST",
    "HOLDFAST_METRICS_PORT",
    "HOLDFAST_MIN_FREE_BYTES",
    "HOLDFAST_OWNER_CONCURRENCY",
    "HOLDFAST_OWNER_PER_DAY",
    "HOLDFAST_OWNER_PER_MINUTE",
    "HOLDFAST_OWNER_PER_SECOND",
    "HOLDFAST_OWNER_STORAGE_BYTES",
    "HOLDFAST_OWNER_WAITING",
    "HOLDFAST_READER_TOKEN",
    "HOLDFAST_SECRET_KEY",
    "HOLDFAST_SECURE_COOKIES",
    "HOLDFAST_TRACEBACKS",
    "HOLDFAST_TRACING",
    "HOLDFAST_TRUSTED_PROXIES",
)
"""Every setting whose name begins with `HOLDFAST_`."""

_SHORTEST_SECRET = 16
_OPERATOR_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_SECURE = {"auto": None, "on": True, "off": False}


class BadSetting(HoldfastError, ValueError):
    """A setting's value cannot be used; the message names it in one line."""

    code = ErrorCode.VALIDATION_ERROR


class Environment:
    """Read settings by name; one that is not there or empty has its default.

    A value that is not of the kind that was asked for, or out of bounds, is a `BadSetting`.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return a setting as it is written, without the spaces around it."""
        return self.values.get(name, "").strip() or default

    def whole(
        self, name: str, default: int, *, at_least: int = 1, at_most: int | None = None
    ) -> int:
        """Return a whole number."""
        text = self.text(name)
        if text is None:
            return default
        bounds = _bounds(at_least, at_most)
        try:
            value = int(text)
        except ValueError:
            value = at_least - 1
        if value < at_least or (at_most is not None and value > at_most):
            raise BadSetting(f"{name} must be a whole number {bounds}, got {text!r}")
        return value

    def optional_whole(self, name: str, *, at_most: int) -> int | None:
        """Return a whole number of at least 1, or None where it is not set."""
        return None if self.text(name) is None else self.whole(name, 0, at_most=at_most)

    def number(
        self, name: str, default: float, *, at_least: float, at_most: float | None = None
    ) -> float:
        """Return a number."""
        text = self.text(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (value >= at_least and value <= (1e9 if at_most is None else at_most)):
            raise BadSetting(f"{name} must be a number {_bounds(at_least, at_most)}, got {text!r}")
        return value

    def seconds(
        self, name: str, default: float, *, at_least_ms: int = 1, at_most_ms: int = 10**12
    ) -> float:
        """Return in seconds what is given in whole milliseconds; `default` is seconds."""
        text = self.text(name)
        if text is None:
            return default
        return self.whole(name, 0, at_least=at_least_ms, at_most=at_most_ms) / 1000

    def choice(self, name: str, default: str, choices: Collection[str]) -> str:
        """Return one of `choices`."""
        text = self.text(name, default)
        assert text is not None
        if text not in choices:
            raise BadSetting(f"{name} must be one of {', '.join(choices)}, got {text!r}")
        return text

    def address(self, name: str) -> str | None:
        """Return an http or https address without a slash at its end, or None.

        The error for one that cannot be used does not repeat it: it may hold a password.
        """
        text = self.text(name)
        if text is None:
            return None
        if not _is_address(text):
            raise BadSetting(f"{name} must be an address like http://127.0.0.1:8100")
        return text.rstrip("/")

    def networks(self, name: str) -> tuple[str, ...] | None:
        """Return IP addresses and networks, separated by commas: none for `off`, None if not set.

        A network is written like 10.0.0.0/8.
        """
        text = self.text(name)
        if text is None:
            return None
        parts = () if text == "off" else tuple(part.strip() for part in text.split(","))
        for part in parts:
            try:
                ipaddress.ip_network(part)
            except ValueError:
                raise BadSetting(
                    f"{name} must be off, or addresses and networks like 10.0.0.7,172.16.0.0/12, "
                    f"got {part!r}"
                ) from None
        return parts


@dataclass(frozen=True, slots=True)
class Settings:
    """What every command that serves or works needs. Times are seconds.

    Args:
        data_dir: where files are kept, and the database where no other is named.
        database_url: the store's address, or None for the one below `data_dir`.
        secret_key: signs the cookies; None makes one and keeps it below `data_dir`.
        admin_token: opens the ops routes; None makes one and keeps it below `data_dir`.
            Several with names are written as `named_tokens` takes them.
        reader_token: allows to look at what the ops routes show and to change nothing; None if
            no token does.
        port: where to listen; 0 takes a free one.
        concurrency: attempts that run at once.
        lease_seconds: how long a lease lasts unless it is extended.
        extend_every: between two extensions.
        shutdown_seconds: how long a worker that was asked to stop lets its attempts go on.
        log_format: `text` or `json`.
        tracebacks: `on`, `off`, or the function that redacts them, as `mypackage.privacy:redact`.
        local_access: requests from the server's own machine belong to one organisation.
        secure_cookies: whether cookies travel over https only; None: those that are set over https.
        trusted_proxies: addresses and networks of proxies; None is the server's own machine.
        min_free_bytes: below so many free bytes on the disk of `data_dir` no file is taken in; 0
            for no limit.
        metrics_port: where a worker or a relay answers Prometheus; None: nowhere.
        metrics_host: the address that it listens on there.
        tracing: whether jobs are traced by OpenTelemetry.
    """

    data_dir: Path = Path(".holdfast")
    database_url: str | None = None
    secret_key: str | None = None
    admin_token: str | None = None
    port: int = 8000
    concurrency: int = 10
    lease_seconds: float = 300.0
    extend_every: float = 30.0
    shutdown_seconds: float = 30.0
    log_format: str = "text"
    tracebacks: str = "on"
    local_access: bool = True
    secure_cookies: bool | None = None
    trusted_proxies: tuple[str, ...] | None = None
    min_free_bytes: int = 256 * 1024 * 1024
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    tracing: bool = False
    reader_token: str | None = None

    @classmethod
    def load(cls, environment: Environment) -> "Settings":
        """Read them.

        Raises:
            BadSetting: a value cannot be used.
        """
        lease = environment.seconds("LEASE_MS", cls().lease_seconds, at_least_ms=1000)
        extend = environment.seconds("LEASE_EXTEND_MS", min(30.0, lease / 4), at_least_ms=100)
        if extend > lease / 2:
            raise BadSetting(
                f"LEASE_EXTEND_MS must be at most half of LEASE_MS ({lease * 1000:g}), got "
                f"{extend * 1000:g}: one missed extension would lose every lease"
            )
        return cls(
            data_dir=Path(environment.text("HOLDFAST_DATA_DIR") or cls().data_dir),
            database_url=environment.text("HOLDFAST_DATABASE_URL"),
            secret_key=_secret(environment, "HOLDFAST_SECRET_KEY"),
            admin_token=_tokens(environment, "HOLDFAST_ADMIN_TOKEN"),
            reader_token=_tokens(environment, "HOLDFAST_READER_TOKEN"),
            port=environment.whole("PORT", cls().port, at_least=0, at_most=65535),
            concurrency=environment.whole("WORKER_CONCURRENCY", cls().concurrency, at_most=1000),
            lease_seconds=lease,
            extend_every=extend,
            shutdown_seconds=environment.seconds("WORKER_SHUTDOWN_MS", cls().shutdown_seconds),
            log_format=environment.choice("HOLDFAST_LOG_FORMAT", "text", ("text", "json")),
            tracebacks=_tracebacks(environment),
            local_access=environment.choice("HOLDFAST_LOCAL_ACCESS", "on", ("on", "off")) == "on",
            secure_cookies=_SECURE[environment.choice("HOLDFAST_SECURE_COOKIES", "auto", _SECURE)],
            trusted_proxies=environment.networks("HOLDFAST_TRUSTED_PROXIES"),
            min_free_bytes=environment.whole(
                "HOLDFAST_MIN_FREE_BYTES", cls().min_free_bytes, at_least=0
            ),
            metrics_port=environment.optional_whole("HOLDFAST_METRICS_PORT", at_most=65535),
            metrics_host=environment.text("HOLDFAST_METRICS_HOST") or cls().metrics_host,
            tracing=environment.choice("HOLDFAST_TRACING", "off", ("on", "off")) == "on",
        )


def unknown_names(values: Mapping[str, str]) -> list[str]:
    """Return one line for each name that begins with `HOLDFAST_` and is not a setting."""
    lines = []
    for name in sorted(values):
        if not name.startswith("HOLDFAST_") or name in KNOWN:
            continue
        near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.8)
        guess = f"; did you mean {near[0]}?" if near else ""
        lines.append(f"{name} is not a setting and is ignored{guess}")
    return lines


def named_tokens(text: str, unnamed: str) -> dict[str, str]:
    """Return operators' tokens by the names of the operators.

    Args:
        text: one token, or several with names: `ann:TOKEN,ben:TOKEN`.
        unnamed: the name for a token without one.

    Raises:
        ValueError: a part has no name or no token, or a name is there twice. The message does not
            repeat the tokens.
    """
    if ":" not in text and "," not in text:
        return {unnamed: text} if text else {}
    tokens: dict[str, str] = {}
    for number, part in enumerate(text.split(","), 1):
        name, _, token = (piece.strip() for piece in part.partition(":"))
        if not _OPERATOR_NAME.fullmatch(name) or not token:
            raise ValueError(f"part {number} is not of the form name:token")
        if name in tokens:
            raise ValueError(f"the name {name!r} is there twice")
        tokens[name] = token
    return tokens


def check_tokens(text: str, name: str) -> None:
    """Refuse operators' tokens, as `named_tokens` takes them, that are empty or too short.

    Raises:
        BadSetting: it has the `name` of the setting, and does not repeat the tokens.
    """
    try:
        tokens = named_tokens(text, "admin")
    except ValueError as error:
        raise BadSetting(f"{name} must be a token, or ann:TOKEN,ben:TOKEN: {error}") from None
    if not tokens or any(len(token.strip()) < _SHORTEST_SECRET for token in tokens.values()):
        raise BadSetting(f"{name}: a token must have at least {_SHORTEST_SECRET} characters")


def _tokens(environment: Environment, name: str) -> str | None:
    text = environment.text(name)
    if text is not None:
        check_tokens(text, name)
    return text


def _tracebacks(environment: Environment) -> str:
    text = environment.text("HOLDFAST_TRACEBACKS", "on")
    assert text is not None
    if text not in {"on", "off"} and ":" not in text:
        raise BadSetting(
            f"HOLDFAST_TRACEBACKS must be on, off or the name of a function that redacts them, "
            f"mypackage.privacy:redact, got {text!r}"
        )
    return text


def _secret(environment: Environment, name: str) -> str | None:
    text = environment.text(name)
    if text is not None and len(text) < _SHORTEST_SECRET:
        raise BadSetting(f"{name} must have at least {_SHORTEST_SECRET} characters")
    return text


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return named and parts.scheme in {"http", "https"} and not (parts.query or parts.fragment)


def _bounds(at_least: float, at_most: float | None) -> str:
    if at_most is None:
        return f"of at least {at_least:g}"
    return f"from {at_least:g} to {at_most:.15g}"
