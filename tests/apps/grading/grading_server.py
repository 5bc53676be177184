"""A real server of the grading app in a thread, with a worker and a relay in its event loop."""

import asyncio

from tests.apps.grading.samples import ESSAY
from tests.apps.grading.world import grading
from tests.http.live_server import Serving

from holdfast.messaging import JobPublisher


class GradingServer(Serving):
    """A server on an SQLite file; `working` says whether a worker and a relay run beside it."""

    def __init__(self, folder, *, working=True, **settings):
        super().__init__(folder, served=grading(folder, **settings))
        self._working = working
        self._tasks = []
        self.output = []

    def __enter__(self):
        super().__enter__()
        if self._working:
            self.run(self._begin())
        return self

    def __exit__(self, *error):
        self.run(self._end())
        super().__exit__(*error)

    async def _begin(self):
        publisher = JobPublisher(self.engine, self.served.message_jobs)
        self._tasks = [
            asyncio.create_task(self.engine.work()),
            asyncio.create_task(self.engine.relay(publisher).run()),
        ]

    async def _end(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hand_in(self, text=ESSAY, **fields):
        """Hand a text in through the API; return its id."""
        body = {"skill": "writing", "text": text, **fields}
        answer = self.client.post("/api/submissions", json=body)
        assert answer.status_code == 202, answer.text
        return answer.json()["submissionId"]
