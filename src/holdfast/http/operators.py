"""Operators: who they are by their tokens, and what their roles allow."""

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote, unquote

from holdfast.http.sessions import Signer
from holdfast.settings import named_tokens


class Role(StrEnum):
    """What an operator may do."""

    READER = "reader"
    """Look at everything."""
    FULL = "full"
    """Look at everything and change it."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Who operates, by the name of the token; the audit log has these names."""

    name: str
    role: Role

    @property
    def may_change(self) -> bool:
        """Whether more than looking is allowed."""
        return self.role is Role.FULL


BY_LINK = Operator("one-time link", Role.FULL)
"""Whom a one-time link logs in; no token can have this name."""


class OperatorTokens:
    """The tokens of all operators, each with its own signature for cookies.

    A cookie ends with the token that has opened it: once the token is replaced or removed, its
    signature is no longer known. That of a one-time link ends with any change of the full tokens.

    Args:
        secret_key: signs the cookies.
        full: tokens that allow everything, as `HOLDFAST_ADMIN_TOKEN` has them.
        reader: tokens that allow to look, as `HOLDFAST_READER_TOKEN` has them; None if there is
            none.
    """

    def __init__(self, secret_key: str, full: str, reader: str | None = None) -> None:
        self._signers = {BY_LINK: Signer(f"{secret_key}\0{full}", "one-time link")}
        self._digests: list[tuple[bytes, Operator]] = []
        for operator, token in _operators(full, reader):
            self._signers[operator] = Signer(f"{secret_key}\0{token}", "admin")
            self._digests.append((digest(token), operator))

    def find(self, token: str) -> Operator | None:
        """Return whose token this is. Every token is compared, so the time says nothing."""
        given, found = digest(token), None
        for known, operator in self._digests:
            if hmac.compare_digest(given, known) and found is None:
                found = operator
        return found

    def sign(self, operator: Operator, issued: int) -> str:
        """Return the value of a cookie that logs `operator` in since `issued`, epoch seconds."""
        # A cookie has no spaces.
        name = quote(operator.name, safe="@")
        return self._signers[operator].sign(f"{operator.role}.{name}.{issued}")

    def verify(self, cookie: str) -> tuple[Operator, int] | None:
        """Return who is logged in by a cookie and since when; None if it is not valid."""
        text, _, _ = cookie.rpartition(".")
        role, _, rest = text.partition(".")
        name, _, issued = rest.rpartition(".")
        if role not in tuple(Role) or not (issued.isascii() and issued.isdigit()):
            return None
        operator = Operator(unquote(name), Role(role))
        signer = self._signers.get(operator)
        if signer is None or signer.verify(cookie) is None:
            return None
        return operator, int(issued)


def digest(token: str) -> bytes:
    """Return the SHA-256 of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _operators(full: str, reader: str | None) -> Iterator[tuple[Operator, str]]:
    for name, token in named_tokens(full, "admin").items():
        yield Operator(name, Role.FULL), token
    for name, token in named_tokens(reader or "", "reader").items():
        yield Operator(name, Role.READER), token
