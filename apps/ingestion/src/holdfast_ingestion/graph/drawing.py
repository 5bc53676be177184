"""A picture of concepts and their relations, laid out on the server.

The same graph gives the same picture. Colours are the page's own: text and lines take its
`currentColor`. Pages show a table beside it, since a picture alone is nothing to a screen reader.
"""

import math
from collections.abc import Sequence
from html import escape
from itertools import combinations

from holdfast_ingestion.graph.repository import Concept, ConceptRelation

_WIDTH = 960
_HEIGHT = 600
_MARGIN_X = 110
_MARGIN_Y = 40
"""Units around the centres of circles, for what stands beside them."""
_SMALLEST = 6.0
_LARGEST = 18.0
"""Radii of the circles."""
_LONGEST_LABEL = 24
_NAME_WIDTH = 130.0
_NAME_HEIGHT = 60.0
"""Room for a circle and the name below it."""
_ROUNDS = 200
"""How often those that are too near each other are moved apart at most."""
_SEED = 1
"""Where the layout begins; any number does, as long as it is always the same."""

Point = tuple[float, float]


def graph_svg(
    concepts: Sequence[Concept],
    relations: Sequence[ConceptRelation],
    *,
    title: str = "Concepts and their relations",
) -> str:
    """Return the picture as an SVG element: a circle per concept, a line per relation.

    Concepts that more documents mention have larger circles. Relations of concepts that are not
    among `concepts` are left out.
    """
    known = {each.id for each in concepts}
    drawn = [each for each in relations if {each.subject, each.object} <= known]
    places = layout([each.id for each in concepts], drawn)
    names = {each.id: each.name for each in concepts}
    most = max((each.documents for each in concepts), default=1)
    parts = [_line(each, places, names) for each in drawn]
    parts += [_circle(each, places[each.id], most) for each in concepts]
    return (
        f'<svg class="concept-graph" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def layout(ids: Sequence[str], relations: Sequence[ConceptRelation]) -> dict[str, Point]:
    """Return the place of each concept in the picture: related ones are near each other."""
    # Here, since it takes a third of the time in which a server starts.
    import networkx  # type: ignore[import-untyped]  # it has none

    graph = networkx.Graph()
    graph.add_nodes_from(ids)
    graph.add_edges_from((each.subject, each.object) for each in relations)
    places = networkx.spring_layout(graph, seed=_SEED, iterations=100) if ids else {}
    columns = _spread([places[each][0] for each in ids], _MARGIN_X, _WIDTH - _MARGIN_X)
    rows = _spread([places[each][1] for each in ids], _MARGIN_Y, _HEIGHT - _MARGIN_Y)
    spots = _apart([*zip(columns, rows, strict=True)])
    return dict(zip(ids, spots, strict=True))


def _apart(spots: list[Point]) -> list[Point]:
    """Return `spots` moved until no two names lie over each other, as far as there is room."""
    xs, ys = [x for x, _ in spots], [y for _, y in spots]
    for _ in range(_ROUNDS):
        moved = False
        for one, other in combinations(range(len(spots)), 2):
            dx, dy = xs[other] - xs[one], ys[other] - ys[one]
            if abs(dx) >= _NAME_WIDTH or abs(dy) >= _NAME_HEIGHT:
                continue
            moved = True
            # The shorter way out, half of it for each of the two.
            if (_NAME_WIDTH - abs(dx)) / _NAME_WIDTH < (_NAME_HEIGHT - abs(dy)) / _NAME_HEIGHT:
                step = math.copysign((_NAME_WIDTH - abs(dx)) / 2 + 1, dx)
                xs[one], xs[other] = xs[one] - step, xs[other] + step
            else:
                step = math.copysign((_NAME_HEIGHT - abs(dy)) / 2 + 1, dy)
                ys[one], ys[other] = ys[one] - step, ys[other] + step
        xs = [min(max(x, _MARGIN_X), _WIDTH - _MARGIN_X) for x in xs]
        ys = [min(max(y, _MARGIN_Y), _HEIGHT - _MARGIN_Y) for y in ys]
        if not moved:
            break
    return [(round(x, 1), round(y, 1)) for x, y in zip(xs, ys, strict=True)]


def _spread(values: Sequence[float], first: float, last: float) -> list[float]:
    """Return `values` stretched to the range from `first` to `last`."""
    lowest, highest = min(values, default=0.0), max(values, default=0.0)
    if highest - lowest < 1e-9:
        return [(first + last) / 2] * len(values)
    scale = (last - first) / (highest - lowest)
    return [round(float(first + (value - lowest) * scale), 1) for value in values]


def _line(relation: ConceptRelation, places: dict[str, Point], names: dict[str, str]) -> str:
    (x1, y1), (x2, y2) = places[relation.subject], places[relation.object]
    words = f"{names[relation.subject]} {relation.label} {names[relation.object]}"
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="currentColor" '
        f'stroke-opacity="0.35"><title>{escape(words)}</title></line>'
    )


def _circle(concept: Concept, place: Point, most: int) -> str:
    x, y = place
    radius = round(_SMALLEST + (_LARGEST - _SMALLEST) * concept.documents / most, 1)
    label = concept.name
    if len(label) > _LONGEST_LABEL:
        label = f"{label[: _LONGEST_LABEL - 1]}…"
    return (
        f"<g><title>{escape(concept.name)}</title>"
        f'<circle cx="{x}" cy="{y}" r="{radius}" fill="currentColor" fill-opacity="0.6"/>'
        f'<text x="{x}" y="{round(y + radius + 14, 1)}" text-anchor="middle" font-size="14" '
        f'fill="currentColor">{escape(label)}</text></g>'
    )
