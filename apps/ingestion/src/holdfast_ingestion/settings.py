"""How the ingestion app is set up, from the environment. Times are seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.fetch import allows_private
from holdfast.settings import Environment, Settings
from holdfast_ingestion.model_settings import ModelSettings

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class IngestionSettings:
    """How documents are taken in and processed.

    Args:
        files: the folder for uploads.
        max_bytes: the largest document that is taken in or fetched.
        fetch_seconds: how long a fetch may take, redirects included.
        connect_seconds: how long a connection may take.
        concurrency: documents that are processed at once in the whole fleet.
        allow_private: fetch from any address, this machine included; for development.
        models: what embeds passages and extracts concepts.
    """

    files: Path
    max_bytes: int = 20 * MEBIBYTE
    fetch_seconds: float = 30.0
    connect_seconds: float = 10.0
    concurrency: int = 3
    allow_private: bool = False
    models: ModelSettings = field(default_factory=ModelSettings)

    @classmethod
    def load(cls, values: Mapping[str, str]) -> "IngestionSettings":
        """Read them.

        Raises:
            BadSetting: a value cannot be used.
        """
        read = Environment(values)
        defaults = cls(files=Settings.load(read).data_dir / "files")
        most = 200 * MEBIBYTE
        return replace(
            defaults,
            max_bytes=read.whole("INGESTION_MAX_BYTES", defaults.max_bytes, at_most=most),
            fetch_seconds=read.seconds("INGESTION_FETCH_TIMEOUT", defaults.fetch_seconds),
            concurrency=read.whole("INGESTION_CONCURRENCY", defaults.concurrency, at_most=1000),
            allow_private=allows_private(read),
            models=ModelSettings.load(read),
        )
