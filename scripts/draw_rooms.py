"""Draw which room of the code imports which, from the import graph.

The rows are the layers of the contracts in pyproject.toml. Neighbouring layers of single files are
one box. An arrow that other arrows already imply is left out.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from math import fsum
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
APPS = sorted(path.name for path in ROOT.glob("apps/*/src/*") if path.is_dir())

ROW_HEIGHT, BOX_HEIGHT, GAP, MARGIN = 92, 46, 30, 20
LETTER, SMALL_LETTER = 8.8, 6.2
SWEEPS = 8
MOST_NAMES = 6  # a longer list of files would change too often


@dataclass(eq=False)
class Box:
    """One room, or a waypoint of a long arrow in a row that it crosses (no name, no modules)."""

    name: str = ""
    note: str = ""
    modules: frozenset[str] = frozenset()
    below: "list[Box]" = field(default_factory=list)
    above: "list[Box]" = field(default_factory=list)
    x: float = 0
    row: int = 0

    @property
    def width(self) -> float:
        """Return the width in pixels: enough for both lines of text."""
        if not self.name:
            return 6
        return 26 + max(LETTER * len(self.name), SMALL_LETTER * len(self.note))


def pictures() -> dict[str, str]:
    """Return each picture as SVG, by its path in the repository: one for each layers contract."""
    graph = grimp.build_graph("holdfast", *APPS, cache_dir=None)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    drawn = {}
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            [package] = contract["containers"]
            name = package.replace(".", "-")
            drawn[f"docs/explanation/images/{name}.svg"] = draw(graph, package, contract["layers"])
    return drawn


def draw(graph: grimp.ImportGraph, package: str, layers: list[str]) -> str:
    """Return the rooms of a package as SVG, in rows as `layers` lists them from the top."""
    rows = _rows(graph, package, layers)
    for number, row in enumerate(rows):
        for box in row:
            box.row = number
    rooms = [box for row in rows for box in row]
    arrows = sorted(
        _arrows(rooms, graph), key=lambda pair: (rooms.index(pair[0]), rooms.index(pair[1]))
    )
    paths = [_path(rows, upper, lower) for upper, lower in arrows]
    _order(rows)
    _place(rows)
    return _svg(rows, paths, arrows, package)


def _rows(graph: grimp.ImportGraph, package: str, layers: list[str]) -> list[list[Box]]:
    """Return the boxes from the top row to the bottom row."""
    rows: list[list[Box]] = []
    files: list[str] = []
    for layer in [*layers, ""]:
        names = [name.strip(" ()") for name in layer.replace(":", "|").split("|")]
        rooms = [
            name
            for name in names
            if f"{package}.{name}" in graph.modules and not name.startswith("__")
        ]
        if rooms and not any(graph.find_children(f"{package}.{name}") for name in rooms):
            files += rooms
            continue
        if files:
            rows.append([_files(package, files)])
            files = []
        if rooms:
            rows.append([_room(graph, f"{package}.{name}") for name in rooms])
    if package == "holdfast":
        front = Box("holdfast", "the public names", frozenset(["holdfast"]))
        rows[0].insert(0, front)
        rows.insert(0, [_room(graph, app) for app in APPS])
    return rows


def _room(graph: grimp.ImportGraph, module: str) -> Box:
    inside = sorted(graph.find_children(module))
    packages = [each.rpartition(".")[2] for each in inside if graph.find_children(each)]
    members = frozenset([module, *graph.find_descendants(module)])
    return Box(module.rpartition(".")[2], ", ".join(packages), members)


def _files(package: str, names: list[str]) -> Box:
    modules = frozenset(f"{package}.{name}" for name in names)
    if len(names) == 1:
        return Box(names[0], "", modules)
    note = ", ".join(sorted(names)) if len(names) <= MOST_NAMES else ""
    return Box("shared modules", note, modules)


def _arrows(boxes: list[Box], graph: grimp.ImportGraph) -> set[tuple[Box, Box]]:
    """Return which box imports which, without arrows that others imply."""
    home = {module: box for box in boxes for module in box.modules}
    direct: dict[Box, set[Box]] = {box: set() for box in boxes}
    for module, box in home.items():
        imported = (home.get(name) for name in graph.find_modules_directly_imported_by(module))
        direct[box] |= {other for other in imported if other is not None and other is not box}

    def reached(start: Iterable[Box]) -> set[Box]:
        found: set[Box] = set()
        waiting = list(start)
        while waiting:
            box = waiting.pop()
            if box not in found:
                found.add(box)
                waiting += direct[box]
        return found

    return {
        (box, other)
        for box, others in direct.items()
        for other in others
        if other not in reached(others - {other})
    }


def _path(rows: list[list[Box]], upper: Box, lower: Box) -> list[Box]:
    """Return the boxes of an arrow, with a waypoint in each row between."""
    path = [upper]
    for number in range(upper.row + 1, lower.row):
        path.append(corridor := Box(row=number))
        rows[number].append(corridor)
    path.append(lower)
    for one, next_one in pairwise(path):
        one.below.append(next_one)
        next_one.above.append(one)
    return path


def _order(rows: list[list[Box]]) -> None:
    """Sort each row by the positions of its neighbours, so that few arrows cross."""
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        _place(rows)
        for row in rows if down else reversed(rows):
            place = {box: _mean(box.above if down else box.below, box.x) for box in row}
            row.sort(key=lambda box: round(place[box], 3))
            _place([row])


def _place(rows: list[list[Box]]) -> None:
    for row in rows:
        x = -(fsum(box.width for box in row) + GAP * (len(row) - 1)) / 2
        for box in row:
            box.x = x + box.width / 2
            x += box.width + GAP


def _mean(boxes: list[Box], otherwise: float) -> float:
    # Not `sum`, whose rounding differs between releases of Python.
    return fsum(box.x for box in boxes) / len(boxes) if boxes else otherwise


def _svg(
    rows: list[list[Box]], paths: list[list[Box]], arrows: list[tuple[Box, Box]], package: str
) -> str:
    half = max(box.x + box.width / 2 for row in rows for box in row) + MARGIN
    width, height = round(2 * half), ROW_HEIGHT * (len(rows) - 1) + BOX_HEIGHT + 2 * MARGIN
    words = "; ".join(f"{upper.name} imports {lower.name}" for upper, lower in arrows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" text-anchor="middle">',
        f"<title>The rooms of {escape(package)} and the direction of their imports</title>",
        f"<desc>{escape(words)}</desc>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>',
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
    ]
    lines += [_line(path, half) for path in paths]
    lines += [_drawn_box(box, half) for row in rows for box in row if box.name]
    return "\n".join([*lines, "</svg>", ""])


def _line(path: list[Box], half: float) -> str:
    points = []
    for upper, lower in pairwise(path):
        bottom = MARGIN + ROW_HEIGHT * upper.row + BOX_HEIGHT
        points.append((_port(upper, upper.below, lower) + half, bottom))
        points.append((_port(lower, lower.above, upper) + half, MARGIN + ROW_HEIGHT * lower.row))
    before, *rest = points
    drawn = [f"M{before[0]:.0f} {before[1]}"]
    for point in rest:
        middle = (before[1] + point[1]) / 2
        drawn.append(
            f"C{before[0]:.0f} {middle:.0f} {point[0]:.0f} {middle:.0f} {point[0]:.0f} {point[1]}"
        )
        before = point
    return f'<path d="{"".join(drawn)}" fill="none" stroke="#57606a" marker-end="url(#tip)"/>'


def _port(box: Box, neighbours: list[Box], neighbour: Box) -> float:
    """Return where the arrow to a neighbour meets a box: arrows share its edge evenly."""
    place = sorted(neighbours, key=lambda each: each.x).index(neighbour) + 1
    return box.x + box.width * (place / (len(neighbours) + 1) - 0.5)


def _drawn_box(box: Box, half: float) -> str:
    left, top = box.x - box.width / 2 + half, MARGIN + ROW_HEIGHT * box.row
    middle = box.x + half
    name_y = top + (20 if box.note else 28)
    note = (
        f'<text x="{middle:.0f}" y="{top + 36}" font-size="11" fill="#57606a">'
        f"{escape(box.note)}</text>"
        if box.note
        else ""
    )
    return (
        f'<rect x="{left:.0f}" y="{top}" width="{box.width:.0f}" height="{BOX_HEIGHT}" rx="6" '
        f'fill="#f6f8fa" stroke="#0969da"/><text x="{middle:.0f}" y="{name_y}" font-size="14" '
        f'font-weight="bold" fill="#1f2328">{escape(box.name)}</text>{note}'
    )
