"""The stream of hints."""

import asyncio

from tests.support.waiting import SOON

from holdfast.http.ops.live_hints import hints


def test_a_change_is_hinted_at_most_once_a_second(dashboard):
    clock = dashboard.engine.clock

    async def listen():
        stream = hints(dashboard.serving.state)
        assert await anext(stream) == b"retry: 1000\n\n"
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.05)
        for _ in range(5):
            await dashboard.engine.enqueue("shop.report", {"number": 1})
        assert await asyncio.wait_for(first, SOON) == b"event: change\ndata: {}\n\n"
        begun = clock.monotonic()
        second = asyncio.ensure_future(anext(stream))
        await dashboard.engine.downstreams.hold("smtp")
        assert b"change" in await asyncio.wait_for(second, SOON)
        assert clock.monotonic() - begun > 0.9
        dashboard.serving.state.stopping.set()
        assert [each async for each in stream] == []

    dashboard.run(listen())


def test_a_stream_of_limited_length_ends(dashboard):
    async def listen():
        return [each async for each in hints(dashboard.serving.state, longest=0.0)]

    assert dashboard.run(listen()) == [b"retry: 1000\n\n"]


def test_the_stream_is_served_to_operators(shown):
    with shown.client.stream("GET", "/ops/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert next(answer.iter_lines()) == "retry: 1000"
