"""Text can be read on every ground that it stands on: 4.5:1, as WCAG 2.2 AA asks."""

import re
from pathlib import Path

import pytest

from holdfast.http import pages

STYLES = (Path(pages.__file__).parent / "static/holdfast.css").read_text("utf-8")
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w-]+): light-dark\(#(\w{6}), #(\w{6})\);", STYLES)
}
GROUNDS = ("ground", "surface", "raised", "accent-wash", "wait-wash")
PAIRS = [
    *((text, ground) for text in ("ink", "soft", "accent", "bad") for ground in GROUNDS),
    *((text, ground) for text in ("good", "wait") for ground in GROUNDS[:4]),
    ("wait", "wait-wash"),
    ("accent-ink", "accent"),
    ("accent-ink", "accent-hover"),
    ("ground", "ink"),
]


def luminance(colour):
    shares = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4
              for each in shares]  # fmt: skip
    return sum(part * each for part, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_enough_contrast_everywhere(theme):
    found = {}
    for text, ground in PAIRS:
        low, high = sorted(luminance(COLOURS[name][theme]) for name in (text, ground))
        found[text, ground] = (high + 0.05) / (low + 0.05)

    assert {pair: round(ratio, 2) for pair, ratio in found.items() if ratio < 4.5} == {}


def test_text_is_never_made_fainter():
    faint = [line for line in STYLES.splitlines() if re.search(r"opacity: \.\d", line)]

    assert faint == []
