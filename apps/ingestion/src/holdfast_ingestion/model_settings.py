"""Which models are set up, from the environment."""

from dataclasses import dataclass, field

from holdfast.settings import Environment


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Where the models are that embed passages and extract concepts; None where one is not used.

    Args:
        gemini_api_key: the key of the Gemini API; without it there is no search by meaning.
        gemini_base_url: where that API is; by default Google's own address.
        chatmock_base_url: an OpenAI-compatible server; without it concepts are key phrases.
        extracts_concepts: False switches the knowledge graph off, and saves what it costs.
    """

    gemini_api_key: str | None = field(default=None, repr=False)
    gemini_base_url: str | None = None
    chatmock_base_url: str | None = None
    extracts_concepts: bool = True

    @classmethod
    def load(cls, read: Environment) -> "ModelSettings":
        """Read them.

        Raises:
            BadSetting: a value cannot be used.
        """
        return cls(
            gemini_api_key=read.text("GEMINI_API_KEY"),
            gemini_base_url=read.address("GEMINI_BASE_URL"),
            chatmock_base_url=read.address("CHATMOCK_BASE_URL"),
            extracts_concepts=read.choice("INGESTION_CONCEPTS", "1", ("0", "1")) == "1",
        )
