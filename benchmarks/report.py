"""Output of rows: a table, the results file and charts."""

import json
import platform
from collections.abc import Sequence
from html import escape
from operator import itemgetter
from pathlib import Path

from benchmarks.measure import Row

RESULTS = Path(__file__).parent / "results"
_BAR, _LEFT, _TOP, _WIDTH = 20, 270, 54, 760
_CAPTION = "time relative to Holdfast: a shorter bar is faster"


def print_table(rows: Sequence[Row]) -> None:
    """Print each row; ratios are printed as "slower" or "faster" than Holdfast."""
    for row in rows:
        print(f"\n{row.work}")
        for peer, ratio in row.ratios.items():
            comparison = f"{ratio:g}x slower" if ratio >= 1 else f"{1 / ratio:.3g}x faster"
            print(f"  {peer:34s} {comparison} than Holdfast{_goal_of(row, peer)}")
        for name, count in row.counts.items():
            print(f"  {name:34s} {count:g}{_bound_of(row, name)}")
        if row.note:
            print(f"  {row.note}")
        if row.goals or row.expected or row.at_most:
            print(f"  {'goal met' if row.met else 'GOAL MISSED'}")


def _goal_of(row: Row, peer: str) -> str:
    goals = [goal.at_least for goal in row.goals if goal.peer == peer]
    if not goals:
        return ""
    goal = goals[0]
    return f"   (goal {goal:g}x)" if goal >= 1 else f"   (goal: at most {1 / goal:.3g}x faster)"


def _bound_of(row: Row, name: str) -> str:
    if name in row.expected:
        return f"   (must be {row.expected[name]:g})"
    return f"   (at most {row.at_most[name]:g})" if name in row.at_most else ""


def write_results(rows: Sequence[Row], suite: str) -> Path:
    """Write the rows to latest.json, and keep the rows of other suites."""
    path = RESULTS / "latest.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known[suite] = {
        "python": platform.python_version(),
        "rows": [row.as_dict() for row in rows],
    }
    path.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
    return path


def write_charts(rows: Sequence[Row], suite: str) -> list[Path]:
    """Draw one SVG per row with ratios: the time of each peer relative to Holdfast."""
    paths = []
    for number, row in enumerate(rows, start=1):
        if not row.ratios:
            continue
        path = RESULTS / f"{suite}_{number}.svg"
        path.write_text(_chart(row))
        paths.append(path)
    return paths


def _chart(row: Row) -> str:
    bars = sorted([("Holdfast", 1.0), *row.ratios.items()], key=itemgetter(1))
    _, longest = bars[-1]
    height = _TOP + 6 + (_BAR + 8) * len(bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'role="img" font-family="sans-serif" font-size="13">',
        f"<title>{escape(row.work)}: time relative to Holdfast</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="20" font-weight="bold" fill="#1b1f24">{escape(row.work)}</text>',
        f'<text x="8" y="39" fill="#57606a">{_CAPTION}</text>',
    ]
    for place, (name, value) in enumerate(bars):
        top = _TOP + place * (_BAR + 8)
        width = max(2.0, value / longest * (_WIDTH - _LEFT - 70))
        colour = "#0b6e4f" if name == "Holdfast" else "#8a94a0"
        parts += [
            f'<text x="{_LEFT - 8}" y="{top + 15}" text-anchor="end" fill="#1b1f24">'
            f"{escape(name)}</text>",
            f'<rect x="{_LEFT}" y="{top}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>',
            f'<text x="{_LEFT + width + 6:.1f}" y="{top + 15}" fill="#1b1f24">{value:g}x</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
