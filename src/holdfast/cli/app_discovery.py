"""Find apps: by the name that an installed package gives them, or as `mypackage.jobs:app`.

What is found is an `App`, a `ServedApp`, or a function that takes the environment and returns one
of these. Only serving imports `holdfast.http`.
"""

import inspect
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Union

from holdfast.bootstrap import BadReference, load_reference
from holdfast.cli.usage import UsageError, guess, one_line
from holdfast.errors import HoldfastError
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.job_function import JobFunction

if TYPE_CHECKING:
    from holdfast.http import ServedApp

GROUP = "holdfast.apps"
"""The group of entry points that packages list their apps in."""


def find_apps(names: Sequence[str], environment: Mapping[str, str]) -> list["ServedApp"]:
    """Return the apps called `names` as they are served, or all that are installed.

    Raises:
        UsageError: there is none of that name, it cannot be imported, or it is not an app.
    """
    from holdfast.http import ServedApp

    found = find_workable(names, environment)
    return [ServedApp(app) if isinstance(app, App) else app for app in found]


def find_workable(
    names: Sequence[str], environment: Mapping[str, str]
) -> list[Union[App, "ServedApp"]]:
    """Return the apps called `names`, or all that are installed where none is named.

    Raises:
        UsageError: there is none of that name, it cannot be imported, or it is not an app; or two
            apps have the same name.
    """
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    if not names and not installed:
        raise UsageError("no app is installed; name yours, as mypackage.jobs:app")
    found = [
        _made(name, _loaded(name, installed), environment) for name in (names or sorted(installed))
    ]
    by_name: dict[str, object] = {}
    for app in found:
        if by_name.setdefault(app.name, app) is not app:
            raise UsageError(f"two apps are called {app.name!r}; rename one of them")
    return found


def find_declared(names: Sequence[str], environment: Mapping[str, str]) -> list[App]:
    """Return the apps called `names`, or all that are installed, as they are declared.

    Raises:
        UsageError: as `find_workable` does.
    """
    found = find_workable(names, environment)
    return [app if isinstance(app, App) else app.app for app in found]


def installed_names() -> list[str]:
    """Return the names of the apps that installed packages list."""
    return sorted(entry.name for entry in entry_points(group=GROUP))


def _loaded(name: str, installed: Mapping[str, EntryPoint]) -> object:
    """Import what `name` names, and turn what goes wrong into one line."""
    if name not in installed and ":" not in name:
        raise UsageError(
            f"no app called {name!r} is installed{guess(name, installed)}; one's own is named "
            f"mypackage.jobs:app"
        )
    try:
        found = installed[name].load() if name in installed else load_reference(name)
    except BadReference as error:
        raise UsageError(str(error)) from None
    except (Exception, SystemExit) as error:
        raise UsageError(f"app {name!r} cannot be imported: {one_line(error)}") from error
    if found is None:
        raise UsageError(_missing(name))
    return found


def _missing(name: str) -> str:
    module, _, attribute = name.partition(":")
    declared = vars(sys.modules[module]) if module in sys.modules else {}
    apps = [each for each, value in declared.items() if isinstance(value, App)]
    known = f"; it has {', '.join(sorted(apps))}" if apps else ""
    return f"app {name!r}: the module {module} has no {attribute!r}{known}"


def _made(name: str, found: object, environment: Mapping[str, str]) -> Union[App, "ServedApp"]:
    made = found
    if _is_factory(found):
        try:
            made = found(environment)  # type: ignore[operator]  # it is callable
        except (HoldfastError, ValueError):
            raise
        except Exception as error:
            raise UsageError(f"app {name!r} cannot be made: {one_line(error)}") from error
    if isinstance(made, App):
        return made
    if _is_served(made):
        return made  # type: ignore[return-value]  # the check looks at what was imported
    raise UsageError(f"app {name!r} is not an App, got {made!r}")


def _is_factory(found: object) -> bool:
    if isinstance(found, App | JobFunction | type) or _is_served(found):
        return False
    return callable(found) and not inspect.iscoroutinefunction(found)


def _is_served(found: object) -> bool:
    # A `ServedApp` exists only if holdfast.http was imported; do not import it for the check.
    http = sys.modules.get("holdfast.http")
    return http is not None and isinstance(found, http.ServedApp)
