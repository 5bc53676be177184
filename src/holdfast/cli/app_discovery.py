"""Find apps: by the name that an installed package gives them, or as `mypackage.jobs:app`.

What is found is an `App`, a `ServedApp`, or a function that takes the environment and returns one
of these. Only serving imports `holdfast.http`.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Union

from holdfast.bootstrap import load_reference
from holdfast.jobs.declare.app import App

if TYPE_CHECKING:
    from holdfast.http import ServedApp

GROUP = "holdfast.apps"
"""The group of entry points that packages list their apps in."""


def find_apps(names: Sequence[str], environment: Mapping[str, str]) -> list["ServedApp"]:
    """Return the apps called `names` as they are served, or all that are installed.

    Raises:
        ValueError: there is none of that name, or it is not an app.
    """
    from holdfast.http import ServedApp

    found = find_workable(names, environment)
    return [ServedApp(app) if isinstance(app, App) else app for app in found]


def find_workable(
    names: Sequence[str], environment: Mapping[str, str]
) -> list[Union[App, "ServedApp"]]:
    """Return the apps called `names`, or all that are installed where none is named.

    Raises:
        ValueError: there is none of that name, or it is not an app.
    """
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    if not names and not installed:
        raise ValueError("no app is installed; name yours, as mypackage.jobs:app")
    return [
        _made(name, installed[name].load() if name in installed else _loaded(name), environment)
        for name in (names or sorted(installed))
    ]


def _loaded(name: str) -> object:
    if ":" not in name:
        raise ValueError(
            f"no app called {name!r} is installed; one's own is named mypackage.jobs:app"
        )
    return load_reference(name)


def _made(name: str, found: object, environment: Mapping[str, str]) -> Union[App, "ServedApp"]:
    if callable(found) and not isinstance(found, App | type) and not _is_served(found):
        found = found(environment)
    if isinstance(found, App):
        return found
    if _is_served(found):
        return found  # type: ignore[return-value]  # the check looks at what was imported
    raise ValueError(f"app {name!r} is not an App, got {found!r}")


def _is_served(found: object) -> bool:
    # A `ServedApp` exists only if holdfast.http was imported; do not import it for the check.
    http = sys.modules.get("holdfast.http")
    return http is not None and isinstance(found, http.ServedApp)
