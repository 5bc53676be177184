"""Clients of model providers, and retries for databases: ready wrappers around `RetryService`.

Each call returns a `RetryResult`. Retrying is left to Holdfast alone: the vendors' SDKs are set to
make one request per attempt. A client needs its extra, `holdfast[gemini]` or `holdfast[openai]`,
when it is made; the functions for databases take the driver that the caller uses.
"""

from holdfast.providers.answers import InvalidAnswer
from holdfast.providers.chatmock import ChatMockClient
from holdfast.providers.database import (
    with_database_retry,
    with_database_retry_sync,
    with_database_transaction,
    with_database_transaction_sync,
)
from holdfast.providers.gemini import GeminiClient
from holdfast.providers.setup_errors import is_setup_error
from holdfast.providers.transaction_attempts import CommitUnknown

__all__ = [
    "ChatMockClient",
    "CommitUnknown",
    "GeminiClient",
    "InvalidAnswer",
    "is_setup_error",
    "with_database_retry",
    "with_database_retry_sync",
    "with_database_transaction",
    "with_database_transaction_sync",
]
