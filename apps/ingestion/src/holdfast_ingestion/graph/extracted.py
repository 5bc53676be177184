"""What was extracted from a chunk, within bounds: all that can come of a text, whatever it says."""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast_ingestion.graph.concept_names import cleaned, concept_id, normalised

MOST_CONCEPTS = 12
"""Concepts of one chunk."""
MOST_RELATIONS = 16
"""Relations of one chunk."""
MOST_LABEL = 60
"""Characters of a relation's label."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A concept as a chunk names it."""

    concept: str
    normalised: str
    name: str


@dataclass(frozen=True, slots=True)
class Relation:
    """What the concept `subject` is or does to `object`, both as ids."""

    subject: str
    object: str
    label: str


@dataclass(frozen=True, slots=True)
class PassageConcepts:
    """The concepts of a chunk, each once, and relations between two of them."""

    mentions: tuple[Mention, ...]
    relations: tuple[Relation, ...]


def bounded(names: Iterable[str], relations: Iterable[tuple[str, str, str]]) -> PassageConcepts:
    """Return what can be used of names, and of relations as (subject, label, object) by name.

    Names that are empty or too long are left out, and so are relations with a name that is not
    among the names, or of a concept with itself. The first ones count where there are too many.
    """
    mentions: dict[str, Mention] = {}
    for each in names:
        name = cleaned(each)
        key = normalised(name or "")
        if name and key and len(mentions) < MOST_CONCEPTS:
            mentions.setdefault(key, Mention(concept_id(key), key, name))
    found: dict[Relation, None] = {}
    for subject, label, target in relations:
        if len(found) == MOST_RELATIONS:
            break
        # Cleaned first: what is too long to be a name is too long to be normalised.
        ends = [mentions.get(normalised(cleaned(end) or "")) for end in (subject, target)]
        words = cleaned(label, MOST_LABEL)
        if None in ends or ends[0] == ends[1] or words is None:
            continue
        assert ends[0] is not None
        assert ends[1] is not None
        found[Relation(ends[0].concept, ends[1].concept, words)] = None
    return PassageConcepts(tuple(mentions.values()), tuple(found))
