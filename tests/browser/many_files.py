"""A server with many files that were put into the store directly: no gateway, no worker."""

from tests.http.live_server import Serving

from holdfast import ErrorCode
from holdfast.jobs.client.requests import JobRequest
from holdfast.jobs.downstreams.record import Verdict
from holdfast.jobs.model import Completed, Finished, JobError, Outcome
from holdfast.jobs.store_port import ClaimRequest
from holdfast_conversion.app import Conversion, create
from holdfast_conversion.file_names import job_of, pdf_name, xml_name
from holdfast_conversion.job_values import ConvertArgs, Converted

WORKER = "the tests"
BROKEN = JobError(ErrorCode.GW_4XX, "This file cannot be converted with the selected mapping.")
BUSY = JobError(ErrorCode.GW_5XX, "Converter service is having an issue.")
SIZE = 713_000


class ManyFiles(Serving):
    """The conversion service's pages over jobs whose attempts the tests report."""

    def __init__(self, folder):
        # Enough for all files of one owner, so that they can be claimed at once.
        environment = {"HOLDFAST_DATA_DIR": str(folder), "GATEWAY_CONCURRENCY": "1000"}
        self.conversion: Conversion = create(environment)
        super().__init__(folder, served=self.conversion)

    def add(self, client, *names, **options):
        """Enqueue a file of the client for each name; return the ids of the jobs."""
        owner = self.owner(client)
        requests = [
            JobRequest(
                self.conversion.convert,
                ConvertArgs("uploads/x.pdf", "text", SIZE, name),
                owner=owner,
                meta={"filename": name, "mapping": "text", "bytes": SIZE, "stored": True},
                **options,
            )
            for name in names
        ]
        return [handle.id for handle in self.run(self.engine.enqueue_many(requests))]

    def claim(self, ids):
        """Return claims of the jobs `ids`, in their order; other waiting jobs are claimed too."""
        request = ClaimRequest(1000, ("default",), {self.conversion.convert.kind.name: None})
        claims = self.run(self.engine.store.tick(WORKER, claim=request)).claims
        found = {claim.job_id: claim for claim in claims}
        return [found[job_id] for job_id in ids]

    def finish(self, claims, outcome: Outcome | None = None):
        """Report the attempts of `claims`: complete, each with an XML file, or `outcome`."""
        ends = [Finished(claim.lease, outcome or self._converted(claim)) for claim in claims]
        self.run(self.engine.store.tick(WORKER, ends))

    def _converted(self, claim):
        name, content = xml_name(claim.job_id, claim.lease.token), b"<document/>\n" * 1100
        with self.conversion.files.draft() as draft:
            draft.write(content)
            draft.publish(name)
        result = self.conversion.convert.kind.handler.results.encode(
            Converted(name, len(content), "")
        )
        return Completed(result)

    def keep_pdfs(self, claims):
        """Store a PDF for each of `claims`: a retry needs it."""
        for claim in claims:
            with self.conversion.files.draft() as draft:
                draft.write(b"%PDF-1.7")
                draft.publish(pdf_name(claim.job_id))

    def results(self):
        """Return the ids of the jobs that have an XML file."""
        return {job_of(found.name) for found in self.conversion.files.list("results")}

    def open_breaker(self):
        """Let the gateway fail until its breaker opens."""
        for _ in range(10):
            admission = self.run(self.engine.calls.admit("gateway"))
            if admission.permit is None:
                return
            self.run(self.engine.calls.report("gateway", admission.permit, Verdict.FAILURE))
