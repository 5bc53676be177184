"""The session cookie of a client: its name depends on the server's key."""

import httpx


def session_cookie(client: httpx.Client) -> tuple[str, str]:
    """Return the name and the value of the session cookie that `client` keeps."""
    (found,) = [each for each in client.cookies.jar if each.name.startswith("holdfast_session_")]
    assert found.value is not None
    return found.name, found.value
