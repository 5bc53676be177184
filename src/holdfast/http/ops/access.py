"""Who may see the dashboard, and who may change what it shows."""

from fastapi import Request

from holdfast.errors import ErrorCode
from holdfast.http.admin import AdminAccess
from holdfast.http.api_errors import ApiError, forbidden


class LoginNeeded(ApiError):
    """The request has no operator's token or cookie."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.FORBIDDEN, "Log in as an operator first.")


def access_of(request: Request) -> AdminAccess:
    """Return what decides about the requests of this dashboard."""
    access = request.app.state.admin
    assert isinstance(access, AdminAccess)
    return access


def may_change(request: Request) -> bool:
    """Say whether the request comes from an operator with the full role."""
    return access_of(request).allows(request)


def require_reader(request: Request) -> None:
    """Refuse a request of anyone but an operator.

    Raises:
        LoginNeeded: it is no operator's.
    """
    if not access_of(request).allows(request):
        raise LoginNeeded


def require_full(request: Request) -> None:
    """Refuse a request of anyone but an operator with the full role.

    Raises:
        LoginNeeded: it is no operator's.
        ApiError: `FORBIDDEN`, a reader's.
    """
    require_reader(request)
    if not may_change(request):
        raise forbidden()
