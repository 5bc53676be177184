"""The guarded HTTP fetcher: fetch addresses that a stranger has typed, without being used by them.

What holds for every request, and for every hop of a redirect anew:

1. Only http and https, without a user name, on a port that browsers allow (`urls`).
2. The name is resolved once. If any of its addresses is not on the public internet, the whole name
   is refused (`addresses`, `resolver`).
3. The connection goes to one of the addresses that were checked; the name is used for the `Host`
   header and the certificate only, so a name that changes its address in between gains nothing
   (`pinned_connection`). A connection serves one request and is never reused.
4. Bytes are counted as they arrive and as they are decompressed, and one time limit covers all of
   it, whatever the server announces (`fetch_limits`, `decompression`).

Proxies, cookies and credentials of the environment are not used. A redirect from https to http is
refused: it would hand content from a verified sender to anyone on the way.
"""

try:
    import httpcore as _httpcore  # noqa: F401 - a clear error before a long one
except ImportError:
    raise ImportError("the fetcher needs httpcore: pip install 'holdfast[fetch]'") from None

from holdfast.fetch.content_types import sniff_charset
from holdfast.fetch.fetch_errors import FETCH_ERRORS, FetchCode, FetchError, PermanentFetchError
from holdfast.fetch.fetch_limits import FetchLimits
from holdfast.fetch.fetch_response import Fetched, FetchResponse
from holdfast.fetch.fetcher import Fetcher, allows_private
from holdfast.fetch.resolver import Resolver
from holdfast.fetch.urls import Url

__all__ = [
    "FETCH_ERRORS",
    "FetchCode",
    "FetchError",
    "FetchLimits",
    "FetchResponse",
    "Fetched",
    "Fetcher",
    "PermanentFetchError",
    "Resolver",
    "Url",
    "allows_private",
    "sniff_charset",
]
