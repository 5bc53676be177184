"""The text that other PDF readers extract, split into words for comparison with ours.

Words are separated by spaces and normalised (Unicode NFKC). Chinese and Japanese have no spaces
between words, so each ideograph counts as a word. Invisible characters are ignored. Where a font
does not map its glyphs to characters, pdftotext prints the raw glyph codes; such a code matches any
character.
"""

import re
import subprocess
import unicodedata
from collections import Counter
from pathlib import Path

Words = Counter[str]

_UNSEEN = dict.fromkeys(
    [0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), 0x2060, *range(0x2066, 0x206A), 0xFEFF]
)
_SPACES = re.compile(r"[ \n\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_IDEOGRAPH = re.compile("([\u2e80-\u9fff\uff00-\uffef\U00020000-\U0003ffff])")
_BARE_CODE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_CUT_WORD = re.compile(r"(?<=[^\W\d_])[-\u2010\xad]\n\s*(?=[a-z\xdf-\xff])")
_TIMEOUT = 60


def words_of(text: str) -> Words:
    """Count the words of `text`."""
    plain = unicodedata.normalize("NFKC", text.translate(_UNSEEN))
    return Counter(_IDEOGRAPH.sub(r" \1 ", plain).split())


def agreement(ours: Words, theirs: Words) -> float:
    """Return the share of common words (Dice coefficient)."""
    total = ours.total() + theirs.total()
    return 1.0 if total == 0 else 2 * (ours & theirs).total() / total


def pdftotext(path: Path) -> str | None:
    """Return the words that pdftotext extracts; None if it cannot read the file."""
    done = _run(["pdftotext", "-nopgbrk", str(path), "-"])
    # Without poppler's tables for East Asia it omits those characters.
    if done.returncode or b"language pack" in done.stderr:
        return None
    return done.stdout.decode("utf-8", "replace")


def mutool(path: Path) -> str:
    """Return the words that MuPDF extracts, with hyphenated words joined."""
    done = _run(["mutool", "draw", "-q", "-F", "text", "-o", "-", str(path)])
    return _CUT_WORD.sub("", done.stdout.decode("utf-8", "replace"))


def against_pdftotext(ours: Words, text: str) -> float:
    """Return the agreement of `ours` with the output of pdftotext, 0 to 1."""
    printed = _SPACES.split(text.translate(_UNSEEN))
    odd = [word for word in printed if _BARE_CODE.search(word)]
    theirs = words_of(" ".join(word for word in printed if not _BARE_CODE.search(word)))
    left = ours - theirs
    for word in odd:
        parts = [re.escape(unicodedata.normalize("NFKC", part)) for part in _BARE_CODE.split(word)]
        # A code by itself is a bullet or a bracket, so it matches no longer word.
        pattern = re.compile(".{0,3}".join(parts) if any(parts) else r"\W{1,3}")
        match = next((mine for mine in left if pattern.fullmatch(mine)), None)
        if match is not None:
            theirs[match] += 1
            left[match] -= 1
            if not left[match]:
                del left[match]
        elif any(parts):
            theirs[word] += 1
    return agreement(ours, theirs)


def _run(command: list[str]) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT)
