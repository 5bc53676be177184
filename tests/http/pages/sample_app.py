"""An app with its own part of the front page, for tests."""

import io
from dataclasses import replace
from pathlib import Path

from tests.http.live_server import demo_app

from holdfast.http import Download, FactFormat, JobFact, JobFacts, PagePart, ServedApp
from holdfast.http.plugins import meta_of
from holdfast.jobs.model import JobStatus


class SampleApp(ServedApp):
    """An app whose jobs are described by their `meta`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(demo_app())
        (folder / "templates").mkdir(parents=True)
        (folder / "static").mkdir()
        (folder / "templates/intake.html").write_text("<h1>Press {{ values.what }}</h1>")
        (folder / "templates/empty.html").write_text("<p>Press <b>something</b>.</p>")
        (folder / "static/press.js").write_text("export {};")
        (folder / "static/press.css").write_text("b {}")
        (folder / "static/notes.txt").write_text("not to be served")
        self.part = PagePart(
            title="Press things",
            noun="pressings",
            counted=("leaf", "leaves"),
            removal="What was pressed is deleted.",
            folder=folder,
            intake="intake.html",
            empty="empty.html",
            modules=("press.js",),
            styles=("press.css",),
            statuses={JobStatus.PROCESSING: "Pressing", JobStatus.COMPLETE: "Flat"},
            notes={"pressed": "Pressed."},
            values={"what": "apples & pears"},
        )

    def page(self):
        return self.part

    def without_empty(self):
        self.part = replace(self.part, empty=None)
        return self

    job_facts = (JobFact("mapping", "Mapping"), JobFact("bytes", "Size", FactFormat.BYTES))

    def facts(self, job, now):
        meta = meta_of(job)
        return JobFacts(
            title=meta.get("filename"),
            values={"mapping": meta.get("mapping"), "bytes": meta.get("bytes")},
            note="It has been removed." if meta.get("gone") else "",
            can_download=job.status is JobStatus.COMPLETE and not meta.get("gone"),
            can_retry=job.status is JobStatus.FAILED,
        )

    def download(self, job):
        return Download(io.BytesIO(b"<a/>"), 4, "a.xml", "application/xml")
