"""From lines to blocks in the order of reading, and from blocks to paragraphs.

A block is a stack of lines under each other, of like size and close together. Blocks are put in
order by cutting the page: where an empty strip runs from top to bottom, what is left of it is read
first; else where one runs from side to side, what is above it is read first.
"""

from collections.abc import Iterator, Sequence

from holdfast_conversion.gateway.reading.page_model import Block, Line

_LINE_GAP = 0.75
"""Share of the type size that two lines of one block may stand apart."""
_LIKE_SIZE = 1.35
_INDENT = 0.8
_SHORT_LINE = 0.75
_GUTTER = 0.6
"""Share of the type size that an empty strip between two columns is wide at the least."""
_DEEPEST_CUT = 40
_HYPHENS = ("-", "\u2010", "\u00ad")
_ENDINGS = (".", "!", "?", ":", "\u3002")


def blocks_of(lines: Sequence[Line]) -> list[Block]:
    """Return `lines` as blocks in the order of reading; text that is turned comes last."""
    ordered: list[Block] = []
    for turn in range(4):
        stacks = _stacks([line for line in lines if line.turn == turn])
        ordered.extend(Block(tuple(stack.lines)) for stack in _in_order(stacks, 0))
    return ordered


def paragraphs_of(block: Block) -> Iterator[str]:
    """Yield the paragraphs of `block`; words cut by a hyphen at a line's end are whole again."""
    left = min(line.start for line in block.lines)
    right = max(line.end for line in block.lines)
    paragraph: list[Line] = []
    for line in block.lines:
        if paragraph and _starts_paragraph(paragraph[-1], line, left, right):
            yield _joined(paragraph)
            paragraph = []
        paragraph.append(line)
    yield _joined(paragraph)


class _Stack:
    """A block that still grows downwards, with its bounds in the reading frame."""

    __slots__ = ("end", "lines", "lower", "size", "start", "upper")

    def __init__(self, line: Line) -> None:
        self.lines = [line]
        self.start, self.upper, self.end, self.lower = line.start, line.upper, line.end, line.lower
        self.size = line.size

    def add(self, line: Line) -> None:
        self.lines.append(line)
        self.start, self.end = min(self.start, line.start), max(self.end, line.end)
        self.lower = max(self.lower, line.lower)


def _stacks(lines: Sequence[Line]) -> list[_Stack]:
    done: list[_Stack] = []
    growing: list[_Stack] = []
    for line in sorted(lines, key=lambda one: (one.upper, one.start)):
        still = [one for one in growing if line.upper - one.lower < 2 * one.size]
        best: _Stack | None = None
        for stack in still:
            if _continues(stack.lines[-1], line) and (best is None or stack.lower > best.lower):
                best = stack
        growing = still
        if best is not None:
            best.add(line)
        else:
            stack = _Stack(line)
            growing.append(stack)
            done.append(stack)
    return done


def _continues(above: Line, line: Line) -> bool:
    size = max(above.size, line.size)
    if size > _LIKE_SIZE * min(above.size, line.size):
        return False
    if not -0.6 * size < line.upper - above.lower < _LINE_GAP * size:
        return False
    return min(above.end, line.end) > max(above.start, line.start)


def _in_order(stacks: list[_Stack], depth: int) -> list[_Stack]:
    if len(stacks) < 2 or depth >= _DEEPEST_CUT:
        return sorted(stacks, key=lambda one: (one.upper, one.start))
    parts = _cut(stacks, along=True)
    if len(parts) == 1:
        parts = _cut(stacks, along=False)
    if len(parts) == 1:
        return sorted(stacks, key=lambda one: (one.upper, one.start))
    return [stack for part in parts for stack in _in_order(part, depth + 1)]


def _cut(stacks: list[_Stack], *, along: bool) -> list[list[_Stack]]:
    """Part `stacks` at every empty strip, or at the widest one where lines follow each other."""
    if along:
        spans = sorted(((one.start, one.end, one) for one in stacks), key=lambda span: span[:2])
        least = _GUTTER * min(one.size for one in stacks)
    else:
        spans = sorted(((one.upper, one.lower, one) for one in stacks), key=lambda span: span[:2])
        least = 0.0
    parts, reach, gaps = [[spans[0][2]]], spans[0][1], [0.0]
    for low, high, stack in spans[1:]:
        if low - reach > least:
            parts.append([stack])
            gaps.append(low - reach)
        else:
            parts[-1].append(stack)
        reach = max(reach, high)
    if along or len(parts) < 3:
        return parts
    widest = max(range(1, len(parts)), key=gaps.__getitem__)
    return [
        [one for part in parts[:widest] for one in part],
        [one for part in parts[widest:] for one in part],
    ]


def _starts_paragraph(above: Line, line: Line, left: float, right: float) -> bool:
    if _is_cut_word(above.words[-1].text, line.words[0].text):
        return False
    indented = line.start - left > _INDENT * line.size
    if indented and above.start - left <= _INDENT * line.size:
        return True
    short = above.end - left < _SHORT_LINE * (right - left)
    return short and above.words[-1].text.endswith(_ENDINGS)


def _joined(lines: Sequence[Line]) -> str:
    parts: list[str] = []
    for line in lines:
        text = " ".join(word.text for word in line.words)
        if parts and _is_cut_word(parts[-1], text):
            parts[-1] = parts[-1][:-1] + text
        else:
            parts.append(text)
    return " ".join(parts)


def _is_cut_word(before: str, after: str) -> bool:
    return before.endswith(_HYPHENS) and before[-2:-1].isalpha() and after[:1].islower()
