"""The kinds of an engine's apps, by name."""

import asyncio
import inspect
from collections.abc import Iterable, Mapping

from holdfast.errors import ERRORS, ErrorInfo
from holdfast.events import Listener
from holdfast.jobs.declare.app import App, kinds_by_stored_name, known_downstreams
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.exceptions import UnknownKind
from holdfast.jobs.model import Job
from holdfast.resilience import checks


class Registry:
    """Look up the kinds of `apps`, including kinds declared later.

    Raises:
        TypeError: an element of `apps` is not an App.
        ValueError: two apps have the same name, or declare one downstream or error code
            differently; or a kind has the name or an alias of another.
    """

    def __init__(self, apps: Iterable[App]) -> None:
        self._apps: dict[str, App] = {}
        for app in apps:
            checks.instance("apps", app, App)
            if self._apps.setdefault(app.name, app) is not app:
                raise ValueError(f"two apps are called {app.name!r}; rename one of them")
        self.errors: Mapping[str, ErrorInfo] = known_errors(self._apps.values())
        """Every error code, the library's and the apps', by code."""
        self.downstreams()
        kinds_by_stored_name(self.kinds.values())

    @property
    def apps(self) -> tuple[App, ...]:
        """The apps, in the order in which they were given."""
        return tuple(self._apps.values())

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners of all apps, each once."""
        every = [listener for app in self._apps.values() for listener in app.listeners]
        return tuple(each for place, each in enumerate(every) if each not in every[:place])

    @property
    def kinds(self) -> Mapping[str, JobKind]:
        """All kinds, by name."""
        return {kind.name: kind for app in self._apps.values() for kind in app.kinds}

    def find(self, name: str) -> JobKind | None:
        """Return the kind called `name`, now or formerly, or None if no app declares it."""
        app = self._apps.get(name.partition(".")[0])
        job = app.jobs.get(name) if app is not None else None
        if job is not None:
            return job.kind
        renamed = (kind for kind in self.kinds.values() if name in kind.aliases)
        return next(renamed, None)

    def kind(self, name: str) -> JobKind:
        """Return the kind called `name`.

        Raises:
            UnknownKind: no app declares it.
        """
        kind = self.find(name)
        if kind is None:
            raise UnknownKind(name, self.kinds)
        return kind

    def has_retry_check(self, name: str) -> bool:
        """Say whether the kind called `name` declares `before_retry`."""
        kind = self.find(name)
        return kind is not None and kind.before_retry is not None

    async def check_retry(self, job: Job) -> None:
        """Call the kind's `before_retry`, which raises to refuse a manual retry."""
        kind = self.find(job.kind)
        hook = kind.before_retry if kind is not None else None
        if hook is None:
            return
        if hook.is_async:
            await hook.call(job)
        else:
            answer = await asyncio.to_thread(hook.call, job)
            if inspect.isawaitable(answer):
                await answer

    def downstreams(self) -> Mapping[str, Downstream]:
        """Return the downstreams of all kinds, by name; see `known_downstreams`."""
        return known_downstreams(self.kinds.values())

    def downstream_base(self, name: str) -> str:
        """Return the declared name behind `name`: without what `Downstream(key=)` has added.

        Keys are made from the arguments of jobs, and so may say what their owners do. Of a name
        that only apps of other processes declare, what follows the first colon may be a key.
        """
        for downstream in self.downstreams().values():
            if downstream.covers(name):
                return downstream.name
        return name.partition(":")[0]


def known_errors(apps: Iterable[App]) -> Mapping[str, ErrorInfo]:
    """Return the library's error codes and those of `apps`, by code.

    Raises:
        ValueError: two apps declare one code differently.
    """
    declared: dict[str, tuple[App, ErrorInfo]] = {}
    for app in apps:
        for code, info in app.errors.items():
            other, same = declared.setdefault(code, (app, info))
            if same != info:
                raise ValueError(f"apps {other.name} and {app.name} declare {code} differently")
    return {**ERRORS, **{code: info for code, (_, info) in declared.items()}}
