"""Generate parts of the docs from the code, and the pictures of the architecture.

`--check` only lists what is out of date.
"""

import json
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from typer.core import TyperGroup

from holdfast import Exponential, RateLimit, RetryPolicy, presets
from holdfast.cli.application import application
from holdfast.cli.commands import COMMANDS
from holdfast.errors import ERRORS
from holdfast.jobs.model import INITIAL_STATUSES
from holdfast.jobs.model import MOVES as JOB_MOVES
from holdfast.resilience.breaker.transitions import MOVES
from holdfast.telemetry.metric_catalogue import METRICS, Metric, Source

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts import draw_rooms  # noqa: E402 - found from the line above


def breaker_diagram() -> str:
    """Return the breaker's transitions as a Mermaid state diagram."""
    moves = [f"    {before} --> {after} : {cause}" for (before, cause), after in MOVES.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> CLOSED", *moves, "```"])


def jobs_diagram() -> str:
    """Return the transitions of a job as a Mermaid state diagram."""
    initial = [f"    [*] --> {status}" for status in sorted(INITIAL_STATUSES)]
    moves = [f"    {origin} --> {target} : {why}" for (origin, target), why in JOB_MOVES.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", *initial, *moves, "```"])


def errors_table() -> str:
    """Return the table of error codes."""
    rows = [
        f"| `{info.code}` | {info.category.lower()} | {info.http_status} | {info.message} |"
        for info in ERRORS.values()
    ]
    head = ["| code | category | HTTP | message |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows])


def presets_table() -> str:
    """Return the table of presets."""
    head = [
        "| preset | attempts | first delays before jitter | jitter | cap | attempt limit | opens "
        "| open for | trials | rate |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*head, *(_preset_row(name) for name in presets.NAMES)])


def _preset_row(name: str) -> str:
    policy = presets.get(name)
    backoff = policy.backoff
    assert isinstance(backoff, Exponential)
    delays = ", ".join(f"{backoff.nominal(n):g}" for n in (1, 2, 3))
    limit = "none" if policy.attempt_timeout is None else f"{policy.attempt_timeout:g} s"
    return (
        f"| `{name}` | {policy.max_attempts} | {delays} s | {backoff.jitter:.0%} "
        f"| {backoff.cap:g} s | {limit} | {_breaker(policy)} | {_rate(policy)} |"
    )


def _breaker(policy: RetryPolicy) -> str:
    breaker = policy.breaker
    if breaker is None:
        return "never | | "
    rules = []
    if breaker.consecutive_failures is not None:
        rules.append(f"{breaker.consecutive_failures} in a row")
    if breaker.failure_rate is not None:
        window = (
            f"the last {breaker.window_calls} calls"
            if breaker.window_seconds is None
            else f"the last {breaker.window_seconds:g} s"
        )
        bound = "over" if breaker.rate_rule == "above" else "at least"
        rules.append(f"{bound} {breaker.failure_rate:.0%} of {window}")
    return f"{' or '.join(rules)} | {breaker.open_for:g} s | {breaker.trial_calls}"


def _rate(policy: RetryPolicy) -> str:
    if not isinstance(policy.rate, RateLimit):
        return "none"
    return f"{policy.rate.per_minute} per minute, {policy.rate.per_day} per day"


def metrics_table() -> str:
    """Return the tables of metrics, one for each place that they are counted at."""
    parts = []
    for source in Source:
        rows = [
            f"| `{metric.name}` | {metric.type} | {_labels(metric)} | {metric.meaning} |"
            for metric in METRICS.values()
            if metric.source is source
        ]
        head = ["| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
        parts.append("\n".join([f"## Counted by {source}", "", *head, *rows]))
    return "\n" + "\n\n".join(parts) + "\n"


def _labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels)


def _benchmark_rows() -> list[dict[str, Any]]:
    known = json.loads((ROOT / "benchmarks/results/latest.json").read_text())
    return [row for suite in known.values() for row in suite["rows"]]


def benchmarks_table() -> str:
    """Return the table of the last results of `make bench`."""
    lines = ["| benchmark | Holdfast and its peers, last run | goal |", "| --- | --- | --- |"]
    return "\n".join([*lines, *map(_benchmark_row, _benchmark_rows())])


def missed_goals() -> str:
    """Return a list of the benchmarks that miss a goal, with the peers that they miss it by."""
    rows = _benchmark_rows()
    missed = [row for row in rows if not row["met"]]
    head = f"{len(rows) - len(missed)} of {len(rows)} benchmarks meet their goals. These miss one:"
    return "\n".join([head, "", *(f"- {row['work']}: {_misses(row)}" for row in missed)])


def _misses(row: dict[str, Any]) -> str:
    ratios = row["ratios"]
    return "; ".join(
        f"{_compared(ratios[goal['peer']], goal['peer'])} (goal: {_at_least(goal['at_least'])})"
        for goal in row["goals"]
        if ratios[goal["peer"]] < goal["at_least"]
    )


def _at_least(ratio: float) -> str:
    if ratio == 1:
        return "as fast"
    return f"{ratio:g}x faster" if ratio > 1 else f"at most {1 / ratio:.3g}x slower"


def _compared(ratio: float, peer: str) -> str:
    if 0.95 <= ratio <= 1.05:
        return f"as fast as {peer}"
    return f"{ratio:g}x faster than {peer}" if ratio > 1 else f"{1 / ratio:.3g}x slower than {peer}"


def _benchmark_row(row: dict[str, Any]) -> str:
    # First those that Holdfast is ahead of.
    ratios = sorted(row["ratios"].items(), key=lambda each: (each[1] <= 1.05, each[1] < 0.95))
    compared = [_compared(ratio, peer) for peer, ratio in ratios]
    counts = [f"{name}: {count:g}" for name, count in row["counts"].items()]
    goal = "met" if row["met"] else "**missed**"
    return f"| {row['work']} | {'; '.join([*compared, *counts])} | {goal} |"


def commands_table() -> str:
    """Return the table of commands; those that installed apps add are left out."""
    root = application()
    rows = [
        f"| `holdfast {usage}` | {does} |"
        for name in COMMANDS
        for usage, does in _command_rows(root.commands[name], name)
    ]
    return "\n".join(["| command | does |", "| --- | --- |", *rows])


def _command_rows(command: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            yield from _command_rows(each, f"{path} {name}")
        return
    parameters = [_parameter(each) for each in command.params]
    does = " ".join(command.help.partition("\n\n")[0].split()).rstrip(".")
    yield " ".join([path, *parameters]), does[0].lower() + does[1:]


def _parameter(parameter: Any) -> str:
    """Return an argument or an option as a usage line shows it."""
    many = "…" if parameter.multiple or parameter.nargs == -1 else ""
    if parameter.param_type_name == "argument":
        text = parameter.metavar
    else:
        text = " ".join(filter(None, [parameter.opts[0], parameter.metavar]))
    return f"{text if parameter.required else f'[{text}]'}{many}"


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "benchmarks": ("docs/explanation/benchmarks.md", benchmarks_table),
    "missed goals": ("docs/explanation/benchmarks.md", missed_goals),
    "commands": ("docs/reference/commands.md", commands_table),
    "breaker": ("docs/explanation/circuit-breaker.md", breaker_diagram),
    "jobs": ("docs/explanation/leases-and-fencing.md", jobs_diagram),
    "errors": ("docs/reference/errors.md", errors_table),
    "metrics": ("docs/reference/metrics.md", metrics_table),
    "presets": ("docs/reference/presets.md", presets_table),
}


def stale(*, write: bool) -> list[str]:
    """Return the files whose generated part differs from the code; update them if `write`."""
    found = []
    for name, fresh in chain(draw_rooms.pictures().items(), _pages()):
        path = ROOT / name
        if not path.exists() or path.read_text() != fresh:
            found.append(name)
            if write:
                path.parent.mkdir(exist_ok=True)
                path.write_text(fresh)
    return found


def _pages() -> Iterator[tuple[str, str]]:
    for part, (page, draw) in PARTS.items():
        head, rest = (ROOT / page).read_text().split(f"<!-- generated: {part} -->\n", 1)
        _, tail = rest.split("<!-- end -->", 1)
        yield page, f"{head}<!-- generated: {part} -->\n{draw()}\n<!-- end -->{tail}"


if __name__ == "__main__":
    check = "--check" in sys.argv
    pages = stale(write=not check)
    for each in pages:
        print(("stale: " if check else "written: ") + each)
    sys.exit(1 if check and pages else 0)
