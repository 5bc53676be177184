"""Grade without a language model, by what can be counted; the feedback says so.

It sees the form of a text and nothing of its meaning: a practice score, not a verdict.
"""

import re

from holdfast_grading.graders.rubric import HIGHEST, CriterionScore, GradingResult, graded
from holdfast_grading.messages import Skill

OFFLINE = "offline"
NOTE = (
    "Graded offline, by counting words and sentences: no language model is set up here, "
    "so nothing is said about the meaning."
)
_WORD = re.compile("[^\\W\\d_]+(?:['\u2019][^\\W\\d_]+)*")
# The ASCII marks, the ellipsis, and the full-width ones of Chinese and Japanese.
_SENTENCE_END = re.compile("[.!?\u2026\u3002\uff01\uff1f]+")
_LINKING = frozenset((
    "although", "and", "because", "but", "consequently", "finally", "first", "furthermore",
    "hence", "however", "moreover", "nevertheless", "second", "since", "so", "therefore", "though",
    "thus", "unless", "when", "whereas", "while",
))  # fmt: skip
_FULL_LENGTH = 250
"""Words of a text that has all that the task asks for."""
_WORDS_OF_A_SENTENCE = (8.0, 25.0)
_WORDS_A_MINUTE = (110.0, 170.0)
_LINKS_A_SENTENCE = 0.8
_VARIETY = 0.6
"""The share of different words among the first hundred that scores the most."""


def grade_offline(skill: Skill, text: str, seconds: float | None = None) -> GradingResult:
    """Return the grade of a text, or of a transcript of `seconds` of speech."""
    words = [word.lower() for word in _WORD.findall(text)]
    sentences = [part for part in map(str.strip, _SENTENCE_END.split(text)) if part]
    if skill is Skill.WRITING:
        first = _scored("task", len(words) / _FULL_LENGTH, f"{len(words)} words")
    else:
        first = _fluency(len(words), seconds)
    return graded(
        [
            first,
            _coherence(words, len(sentences)),
            _vocabulary(words),
            _grammar(words, text, sentences),
        ],
        NOTE,
        OFFLINE,
    )


def _fluency(words: int, seconds: float | None) -> CriterionScore:
    pace = 0.0 if not seconds else words * 60.0 / seconds
    return _scored("fluency", _within(pace, _WORDS_A_MINUTE), f"{pace:.0f} words a minute")


def _coherence(words: list[str], sentences: int) -> CriterionScore:
    links = sum(word in _LINKING for word in words)
    share = links / max(sentences, 1) / _LINKS_A_SENTENCE
    return _scored("coherence", share, f"{links} linking words in {sentences} sentences")


def _vocabulary(words: list[str]) -> CriterionScore:
    # Of the first hundred: every text repeats itself more, the longer it is.
    counted = words[:100]
    different = len(set(counted)) / max(len(counted), 1)
    share = different / _VARIETY * min(1.0, len(counted) / 50)
    return _scored("vocabulary", share, f"{different:.0%} of the words differ from each other")


def _grammar(words: list[str], text: str, sentences: list[str]) -> CriterionScore:
    length = len(words) / max(len(sentences), 1)
    begun = sum(not part[0].islower() for part in sentences) / max(len(sentences), 1)
    ended = 1.0 if _SENTENCE_END.search(text.rstrip()[-1:]) else 0.0
    share = (_within(length, _WORDS_OF_A_SENTENCE) + begun + ended) / 3 if words else 0.0
    return _scored("grammar", share, f"{length:.0f} words a sentence")


def _within(value: float, bounds: tuple[float, float]) -> float:
    """Return 1 inside `bounds`, and the less the farther outside."""
    low, high = bounds
    if value < low:
        return value / low
    return 1.0 if value <= high else high / value


def _scored(criterion: str, share: float, comment: str) -> CriterionScore:
    return CriterionScore(criterion, round(HIGHEST * min(1.0, share), 1), comment)
