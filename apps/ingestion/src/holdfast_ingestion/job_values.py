"""The arguments and the results of the app's jobs."""

import hashlib
from dataclasses import dataclass

NO_HOST = "(upload)"
"""The downstream key of documents that are not fetched; no host is called so."""
_LONGEST_KEY = 150


@dataclass(frozen=True, slots=True)
class DocumentArgs:
    """Which document to work on; `host` is the site that it is fetched from."""

    document_id: str
    organisation: str
    host: str = NO_HOST


@dataclass(frozen=True, slots=True)
class Indexed:
    """What an attempt did: `indexed`, `unchanged` or `skipped`, and how many chunks there are."""

    outcome: str
    chunks: int = 0


def host_key(authority: str) -> str:
    """Return the downstream key of a site, `example.org` or `example.org:8080`.

    A name that is too long for a key is shortened, and stays one of its own.
    """
    if len(authority) <= _LONGEST_KEY:
        return authority
    return f"{authority[: _LONGEST_KEY - 17]}~{hashlib.sha256(authority.encode()).hexdigest()[:16]}"


def job_id(document_id: str) -> str:
    """Return the id of the job that processes a document."""
    return f"doc-{document_id}"


def document_of(job: str) -> str:
    """Return the id of the document of a job."""
    return job.removeprefix("doc-")
