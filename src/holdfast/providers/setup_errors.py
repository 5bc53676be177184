"""Tell a caller that is set up wrongly from a request that a provider refuses."""

from holdfast.resilience.categorize import diagnose

_BY_STATUS = frozenset((401, 403, 404, 405))


def is_setup_error(error: Exception) -> bool:
    """Say whether a provider refuses every request of its caller, so that none is to blame.

    The key is wrong, expired or lacks a permission, or the address or the model is not there. It
    passes once somebody has corrected that, so it is an outage like any other, while `categorize`
    calls it permanent. Gemini answers 400 to a wrong key, with a reason of its own.
    """
    status = diagnose(error, wall_now=0.0).status
    return status in _BY_STATUS or (status == 400 and "API_KEY_INVALID" in str(error))
