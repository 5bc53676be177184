"""A server with many files that were put into the store directly: no gateway, no worker."""

from tests.http.live_server import Serving

from holdfast import ErrorCode
from holdfast.jobs.client.requests import JobRequest
from holdfast.jobs.downstreams.record import Verdict
from holdfast.jobs.model import Completed, Finished, JobError, Outcome
from holdfast.jobs.store_port import ClaimRequest
from holdfast_conversion.app import Conversion, create
from holdfast_conversion.file_names import xml_name
from holdfast_conversion.job_values import ConvertArgs, Converted

WORKER = "the tests"
BROKEN = JobError(ErrorCode.GW_4XX, "This file cannot be converted with the selected mapping.")
BUSY = JobError(ErrorCode.GW_5XX, "Converter service is having an issue.")
SIZE = 713_000


class ManyFiles(Serving):
    """The conversion service's pages over jobs whose attempts the tests report."""

    def __init__(self, folder):
        self.conversion: Conversion = create({"HOLDFAST_DATA_DIR": str(folder)})
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

    def claim(self, count):
        """Return claims of the oldest waiting jobs: their attempts run from now on."""
        request = ClaimRequest(count, ("default",), {self.conversion.convert.kind.name: None})
        return self.run(self.engine.store.tick(WORKER, claim=request)).claims

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

    def open_breaker(self):
        """Let the gateway fail until its breaker opens."""
        for _ in range(10):
            admission = self.run(self.engine.calls.admit("gateway"))
            if admission.permit is None:
                return
            self.run(self.engine.calls.report("gateway", admission.permit, Verdict.FAILURE))
