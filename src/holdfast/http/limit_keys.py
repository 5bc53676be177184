"""Which limits a request counts against: those of its session, and those of its address."""

from typing import NamedTuple

from holdfast.http.sessions import Session


class LimitKeys(NamedTuple):
    """Name the limits of one request.

    Args:
        own: the session; requests without one share that of their address.
        address: all sessions of one address together, because every request can bring a new one.
            None for a request with an API key, which only an operator creates.
    """

    own: str
    address: str | None


def limit_keys(session: Session, address: str) -> LimitKeys:
    """Return the limits that a request of `session` from `address` counts against."""
    if session.organisation is not None:
        return LimitKeys(session.owner, None)
    return LimitKeys(session.owner if session.known else f"at {address}", f"all of {address}")
