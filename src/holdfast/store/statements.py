"""Run named statements: what the parts that both stores share need of a store."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.store.row_mapping import Row

StatementCall = tuple[str, Mapping[str, Any]]
"""The name of a statement, and its parameters."""


class Statements(ABC):
    """A store that runs statements by name; both have those of the same names and columns."""

    @abstractmethod
    async def _rows(self, query: str, **parameters: Any) -> Sequence[Row]:
        """Run the named `query` and return its rows."""

    @abstractmethod
    async def _changed_rows(
        self, query: str, now: float | None, **parameters: Any
    ) -> Sequence[Row]:
        """Run the named `query`, which writes, return its rows and wake the workers."""

    @abstractmethod
    async def _changed_together(self, *changes: StatementCall) -> Sequence[Sequence[Row]]:
        """Run statements that write in one transaction, return their rows and wake the workers."""
