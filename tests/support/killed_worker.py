"""A worker that was registered by another process, which was then killed."""

import asyncio
import sys

from holdfast.bootstrap import open_store

_READY = b"registered\n"


async def register_and_kill(url: str, worker_id: str) -> None:
    """Register `worker_id` on the store at `url` in a process of its own, and kill the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, url, worker_id, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == _READY
    finally:
        process.kill()
        await process.wait()


async def _register(url: str, worker_id: str) -> None:
    async with open_store(url) as store:
        await store.heartbeats().register(worker_id)
        sys.stdout.buffer.write(_READY)
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_register(sys.argv[1], sys.argv[2]))
