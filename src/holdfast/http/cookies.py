"""The names of cookies, and the header that sets one."""

import hashlib

_HOST_PREFIX = "__Host-"
"""Browsers take a name that begins so over https only, and from this very host only."""


class CookieName:
    """The name of a cookie for one `purpose`, by the key that signs it.

    Browsers send a cookie to all ports of a host. With the key's fingerprint in the name, two
    servers on one host do not overwrite each other's. A cookie for https has a name of its own,
    because browsers do not let a page over http replace it.
    """

    def __init__(self, purpose: str, secret_key: str) -> None:
        digest = hashlib.sha256(f"cookie name\0{secret_key}".encode()).hexdigest()
        self.plain = f"holdfast_{purpose}_{digest[:8]}"
        self.secure = f"{_HOST_PREFIX}{self.plain}"

    def over(self, *, https: bool) -> str:
        """Return the name to set."""
        return self.secure if https else self.plain


def set_cookie(name: str, value: str, max_age: int, *, secure: bool) -> str:
    """Return a Set-Cookie header; `max_age` is seconds."""
    ending = "; Secure" if secure else ""
    return f"{name}={value}; Max-Age={max_age}; Path=/; HttpOnly; SameSite=Lax{ending}"
