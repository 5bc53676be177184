"""The arguments and the results of the app's jobs."""

from dataclasses import dataclass

NO_HOST = "(upload)"
"""The downstream key of documents that are not fetched; no host is called so."""


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


def job_id(document_id: str) -> str:
    """Return the id of the job that processes a document."""
    return f"doc-{document_id}"


def document_of(job: str) -> str:
    """Return the id of the document of a job."""
    return job.removeprefix("doc-")
