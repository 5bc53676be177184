"""The pause of the intake, as programs see it."""

import asyncio

import pytest

from holdfast import App, Engine, JobContext

app = App("mill")


@app.job()
async def grind(_ctx: JobContext) -> str:
    return "flour"


def test_a_program_s_own_jobs_are_not_refused(tmp_path):
    async def main():
        async with Engine(f"sqlite:///{tmp_path / 'work.db'}", apps=[app]) as engine:
            paused = await engine.intake.pause("the disk is replaced")
            job = await engine.enqueue(grind)
            await engine.work(until_idle=True)

            assert await engine.result(job) == "flour"
            assert await engine.intake.state() == paused
            assert (await engine.intake.resume(), await engine.intake.resume()) == (True, False)
            assert await engine.intake.state() is None

    asyncio.run(main())


def test_a_blocking_engine_pauses_too(tmp_path):
    with Engine(f"sqlite:///{tmp_path / 'work.db'}").blocking() as engine:
        assert engine.intake.pause("x") == engine.intake.state()
        assert engine.intake.resume()


@pytest.mark.parametrize("reason", ["", "two\nlines", "x" * 501])
def test_a_reason_is_one_line(tmp_path, reason):
    with (
        Engine(f"sqlite:///{tmp_path / 'work.db'}").blocking() as engine,
        pytest.raises(ValueError, match="reason"),
    ):
        engine.intake.pause(reason)
