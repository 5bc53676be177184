"""Models for tests: servers that speak the vendors' wire formats and know a few topics."""

import json
import re
from collections.abc import Sequence

from tests.support.providers import chatted, embeddings
from tests.support.waiting import until

from holdfast.testing.downstream import Behaviour, ScriptedDownstream, reply
from holdfast_ingestion.embeddings.embedder import MODEL
from holdfast_ingestion.embeddings.repository import Embeddings
from holdfast_ingestion.model_settings import ModelSettings

TOPICS = (
    {"cat", "cats", "feline", "felines", "kitten"},
    {"sleeps", "slept", "naps", "dozes", "rests"},
    {"car", "cars", "automobile", "vehicle"},
    {"repairs", "fixes", "mends", "maintenance"},
    {"bread", "loaf", "baguette"},
    {"bakes", "baking", "oven"},
)
"""Words that mean the same; each topic is a direction of its own."""
_WORD = re.compile(r"[a-z]+")


def embedding(text: str) -> list[float]:
    """Return the directions of the topics in `text`, and a little of one that all texts share."""
    words = set(_WORD.findall(text.lower()))
    return [0.1, *(1.0 if words & topic else 0.0 for topic in TOPICS)]


def texts_of(request) -> list[str]:
    """Return the texts of a request for embeddings."""
    return [each["content"]["parts"][0]["text"] for each in request.json()["requests"]]


def embed_topics() -> Behaviour:
    """Answer requests for embeddings by topics."""
    return reply(lambda request: embeddings(*map(embedding, texts_of(request))))


def graph(concepts: Sequence[str], *relations: tuple[str, str, str]) -> Behaviour:
    """Answer a chat with a graph; relations are (subject, label, object)."""
    names = ("subject", "label", "object")
    answer = {
        "concepts": list(concepts),
        "relations": [dict(zip(names, each, strict=True)) for each in relations],
    }
    return chatted(json.dumps(answer))


def with_gemini(server: ScriptedDownstream) -> ModelSettings:
    """Return settings with `server` in the place of Gemini's."""
    return ModelSettings(gemini_api_key="key", gemini_base_url=server.url, extracts_concepts=False)


def with_chatmock(server: ScriptedDownstream) -> ModelSettings:
    """Return settings with `server` as the language model."""
    return ModelSettings(chatmock_base_url=f"{server.url}/v1")


async def embedded(world, *documents: str) -> None:
    """Wait until these documents have chunks, and each of those its embedding."""
    results = Embeddings(world.engine.database, MODEL)

    async def complete() -> bool:
        if not all([await world.chunks(each) for each in documents]):
            return False
        return not any([await results.missing(each, 1) for each in documents])

    await until(complete)
