"""Read a handler from its function: what it takes, what it returns, how to call it.

A function that cannot be a handler is refused when it is declared.
"""

import inspect
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NoReturn, get_args, get_origin, get_type_hints

from holdfast.jobs.declare.codecs import NoArguments, arguments_codec
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.json_codec import JsonCodec
from holdfast.jobs.declare.kinds import Handler, Hook
from holdfast.jobs.declare.validation import type_name
from holdfast.resilience import checks


def handler_of(name: str, function: Callable[..., Any], names: Mapping[str, Any]) -> Handler:
    """Return the handler of the kind `name`; `names` are those that its annotations may use.

    Raises:
        TypeError: `function` cannot be a handler; the message says why.
    """
    parameters = _parameters(f"job {name}", function, (1, 2), "(ctx, args) or (ctx)")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"job {name} must return its result, not yield")
    _check_context(name, function, parameters[0], names)
    subject = f"arguments of {name}"
    result = _annotation(name, function, "return", names)
    return Handler(
        function=function,
        is_async=checks.is_async(function),
        takes_arguments=len(parameters) == 2,
        arguments=arguments_codec(_annotation(name, function, parameters[1], names), subject)
        if len(parameters) == 2
        else NoArguments(subject),
        results=JsonCodec(Any if result is NoReturn else result, f"result of {name}"),
    )


def _parameters(
    subject: str, function: object, counts: tuple[int, ...], wanted: str
) -> tuple[str, ...]:
    """Return the names of the positional parameters."""
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"{subject} must be a function, got {function!r}")
    parameters = inspect.signature(function).parameters.values()
    positional = tuple(
        parameter.name
        for parameter in parameters
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
    )
    if len(positional) not in counts or len(positional) != len(parameters):
        raise TypeError(f"{subject} must take {wanted}, got {inspect.signature(function)}")
    return positional


def _check_context(
    name: str, function: Callable[..., Any], parameter: str, names: Mapping[str, Any]
) -> None:
    """Refuse a first parameter that is declared as something else than the context."""
    try:
        declared = _annotation(name, function, parameter, names)
    except TypeError:
        return  # a name that only type checkers know, as JobContext may be
    if declared is Any or JobContext in get_args(declared):
        return
    kind = get_origin(declared) or declared
    is_protocol = getattr(kind, "_is_protocol", False)
    if isinstance(kind, type) and not is_protocol and not _may_be_context(kind):
        raise TypeError(
            f"job {name}: the first parameter is the JobContext, but {parameter!r} is declared as "
            f"{type_name(declared)}; write (ctx: JobContext, {parameter}: {type_name(declared)})"
        )


def _may_be_context(kind: type) -> bool:
    return issubclass(JobContext, kind) or issubclass(kind, JobContext)


def _annotation(
    name: str, function: Callable[..., Any], parameter: str, names: Mapping[str, Any]
) -> Any:
    """Return the annotation of `parameter`; Any if it has none."""
    function = inspect.unwrap(function)
    declared = getattr(function, "__annotations__", {})
    if parameter not in declared:
        return Any
    # Only this one: other annotations, like that of ctx, need not be resolvable.
    alone = SimpleNamespace(__annotations__={parameter: declared[parameter]})
    scope = getattr(function, "__globals__", {})
    try:
        return get_type_hints(alone, scope, dict(names), include_extras=True)[parameter]
    except NameError as error:
        raise TypeError(
            f"job {name}: the annotation of {parameter!r} cannot be resolved ({error}); import "
            f"the type outside of TYPE_CHECKING and declare it above the job"
        ) from None


def hook_of(field: str, function: Callable[..., Any], count: int) -> Hook:
    """Return `function` as the hook `field`, which takes `count` parameters.

    Raises:
        TypeError: it cannot be called so.
    """
    _parameters(field, function, (count,), "(ctx, args)" if count == 2 else "(job)")
    return Hook(function, checks.is_async(function))
