"""Find apps: by the name that an installed package gives them, or as `mypackage.jobs:app`.

What is found is an `App`, a `ServedApp`, or a function that is handed the environment and returns
one of these.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points

from holdfast.bootstrap import load_reference
from holdfast.http import ServedApp
from holdfast.jobs.app import App

GROUP = "holdfast.apps"
"""The group of entry points that packages list their apps in."""


def find_apps(names: Sequence[str], environment: Mapping[str, str]) -> list[ServedApp]:
    """Return the apps called `names`, or all that are installed where none is named.

    Raises:
        ValueError: there is none of that name, or it is no app.
    """
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    if not names and not installed:
        raise ValueError("no app is installed; name yours, as mypackage.jobs:app")
    return [
        _served(name, installed[name].load() if name in installed else _loaded(name), environment)
        for name in (names or sorted(installed))
    ]


def _loaded(name: str) -> object:
    if ":" not in name:
        raise ValueError(
            f"no app called {name!r} is installed; one's own is named mypackage.jobs:app"
        )
    return load_reference(name)


def _served(name: str, found: object, environment: Mapping[str, str]) -> ServedApp:
    if callable(found) and not isinstance(found, App | ServedApp | type):
        found = found(environment)
    if isinstance(found, App):
        return ServedApp(found)
    if isinstance(found, ServedApp):
        return found
    raise ValueError(f"app {name!r} is no App there, got {found!r}")
