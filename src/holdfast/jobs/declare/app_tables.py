"""Tables of an app's own, in the database of the jobs."""

from dataclasses import dataclass

from holdfast.resilience import checks


@dataclass(frozen=True, slots=True)
class AppTables:
    """Say where the migrations of an app's tables are: `App("notes", tables=AppTables("notes"))`.

    Args:
        package: the name of a package with the folders `migrations/sqlite` and
            `migrations/postgres`, whose files are called `0001_name.sql`, `0002_name.sql`, and so
            on. Each is applied once, in order, with Holdfast's own migrations, and its text must
            not change afterwards. On PostgreSQL the tables are in a schema that the first
            migration creates; names that begin with `holdfast` are Holdfast's.

    Raises:
        ValueError: `package` is empty.
    """

    package: str

    def __post_init__(self) -> None:
        checks.label("package", self.package)
