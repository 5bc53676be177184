"""Who may see the dashboard, and who may change what it shows."""

from fastapi import Depends, Request

from holdfast.errors import ErrorCode
from holdfast.http.admin import operator_of, require_admin
from holdfast.http.api_errors import ApiError


class LoginNeeded(ApiError):
    """The request has no operator's token or cookie."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.FORBIDDEN, "Log in as an operator first.")


def require_reader(request: Request) -> None:
    """Refuse a request of anyone but an operator.

    Raises:
        LoginNeeded: it is no operator's.
    """
    if operator_of(request) is None:
        raise LoginNeeded


def require_full(request: Request) -> None:
    """Refuse a request of anyone but an operator who may change things.

    Raises:
        LoginNeeded: it is no operator's.
        ApiError: `FORBIDDEN`, a reader's.
    """
    require_reader(request)
    require_admin(request)


FULL_ACCESS = (Depends(require_full),)
"""The `dependencies` of a route that changes something."""
