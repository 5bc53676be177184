"""The screen of `holdfast top`: drawn for the size that the terminal has at the moment."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.bootstrap import Engine
from holdfast.cli.commands.fleet import worker_records
from holdfast.cli.fleet_snapshot import (
    BREAKER_COLUMNS,
    QUEUE_COLUMNS,
    FleetSnapshot,
    Rates,
)
from holdfast.cli.output import STYLES, Record, one_line
from holdfast.jobs.store_port import StoreUnavailable

_FIXED_LINES = 12
"""Lines of the screen that are not rows of a table."""


async def show_until_quit(engine: Engine, interval: float) -> None:
    """Redraw the screen every `interval` seconds until q or Ctrl-C.

    While the store does not answer, the screen says so.
    """
    before: FleetSnapshot | None = None
    console, address = Console(), engine.store.address
    async with _keys() as quit_pressed:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not quit_pressed.is_set():
                try:
                    now = await FleetSnapshot.read(engine)
                except StoreUnavailable as error:
                    live.update(Text(f"{address}: {one_line(error)}", style="red"), refresh=True)
                else:
                    rates = None if before is None else Rates.between(before, now)
                    before = now
                    live.update(screen(address, now, rates, console.height), refresh=True)
                with suppress(TimeoutError):
                    await asyncio.wait_for(quit_pressed.wait(), interval)


def screen(
    address: str, snapshot: FleetSnapshot, rates: Rates | None, height: int
) -> RenderableType:
    """Return what is shown on a terminal of `height` lines."""
    most = max(1, (height - _FIXED_LINES) // 3)
    parts: list[RenderableType] = [
        Text(f"Holdfast on {address}   q ends", style="bold"),
        Text(_figures(snapshot, rates)),
        Text(),
        _table(snapshot.queue_records(), QUEUE_COLUMNS, most),
    ]
    breakers = snapshot.breaker_records()
    if breakers:
        parts += [Text(), _table(breakers, BREAKER_COLUMNS, most)]
    workers = [{**each, "worker": each["id"]} for each in worker_records(snapshot.workers)]
    parts += [Text(), _table(workers, ("worker", "running", "finish_requested_at"), most)]
    return Group(*parts)


def _figures(snapshot: FleetSnapshot, rates: Rates | None) -> str:
    per_second = "measuring"
    if rates is not None:
        per_second = (
            f"in {rates.arrived:.1f}/s  done {rates.completed:.1f}/s  failed {rates.failed:.1f}/s"
        )
    return (
        f"{snapshot.unfinished} unfinished  {per_second}  "
        f"{snapshot.stats.dead_letters} dead letters  {snapshot.backlog.pending} outbox messages, "
        f"the oldest {snapshot.backlog.lag:.0f} s"
    )


def _table(records: Sequence[Record], columns: Sequence[str], most: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(name.replace("_", " "), no_wrap=True)
    for record in records[:most]:
        cells = [_cell(record[name]) for name in columns]
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in cells))
    if len(records) > most:
        table.add_row(Text(f"and {len(records) - most} more"))
    return table


def _cell(value: object) -> str:
    return f"{value:.0f} s" if isinstance(value, float) else one_line(value)


@asynccontextmanager
async def _keys() -> AsyncIterator[asyncio.Event]:
    """Yield an event that is set when q is pressed; read keys one by one meanwhile."""
    pressed, loop = asyncio.Event(), asyncio.get_running_loop()
    if not sys.stdin.isatty():
        yield pressed
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def read() -> None:
        typed = os.read(terminal, 100)
        if not typed or b"q" in typed.lower():  # nothing: the terminal was closed
            pressed.set()

    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield pressed
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
