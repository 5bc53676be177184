"""Read a handler from its function: what it takes, what it returns, how to call it.

A function that cannot be a handler is refused when it is declared.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, NoReturn, NotRequired, TypedDict, get_args, get_origin, get_type_hints

from holdfast.jobs.declare.codecs import NoArguments, arguments_codec, result_codec
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.kinds import Codec, Handler, Hook
from holdfast.jobs.declare.validation import type_name
from holdfast.resilience import checks

_POSITIONAL = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
_NAMED = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


def handler_of(name: str, function: Callable[..., Any], names: Mapping[str, Any]) -> Handler:
    """Return the handler of the kind `name`; `names` are those that its annotations may use.

    Raises:
        TypeError: `function` cannot be a handler; the message says why.
    """
    context, *arguments = _handler_parameters(f"job {name}", function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"job {name} must return its result, not yield")
    _check_context(name, function, context.name, names)
    types = {each.name: _annotation(name, function, each.name, names) for each in arguments}
    by_name = len(arguments) > 1 or any(each.kind is each.KEYWORD_ONLY for each in arguments)
    subject = f"arguments of {name}"
    codec: Codec = NoArguments(subject)
    if by_name:
        codec = arguments_codec(_mapping_type(name, arguments, types), subject)
    elif arguments:
        codec = arguments_codec(types[arguments[0].name], subject)
    result = _annotation(name, function, "return", names)
    return Handler(
        function=function,
        is_async=checks.is_async(function),
        takes_arguments=bool(arguments),
        arguments=codec,
        results=result_codec(Any if result is NoReturn else result, f"result of {name}"),
        by_name=by_name,
    )


def bound_arguments(handler: Handler, given: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Return what `enqueue` takes for a call `function(ctx, *given, **named)` of the handler.

    Raises:
        TypeError: the function cannot be called so.
    """
    bound = inspect.signature(handler.function).bind(None, *given, **named).arguments
    arguments = dict(list(bound.items())[1:])
    if handler.by_name:
        return arguments
    return next(iter(arguments.values()), None)


def _handler_parameters(subject: str, function: object) -> list[inspect.Parameter]:
    """Return the parameters of a handler, of which the first is its context."""
    signature = _signature(subject, function)
    parameters = list(signature.parameters.values())
    positional = [each for each in parameters if each.kind in _POSITIONAL]
    named = [each for each in parameters[1:] if each.kind in _NAMED]
    one_at_most = len(parameters) == len(positional) <= 2
    if not positional or not (one_at_most or len(named) == len(parameters) - 1):
        raise TypeError(
            f"{subject} must take (ctx), (ctx, args) or several arguments by name after ctx, got "
            f"{signature}"
        )
    return parameters


def _mapping_type(
    name: str, arguments: Iterable[inspect.Parameter], types: Mapping[str, Any]
) -> Any:
    """Return the type of several arguments: a mapping.

    Arguments with a default may be left out; the default is then that of the function that runs
    the job.
    """
    fields = {
        each.name: types[each.name] if each.default is each.empty else NotRequired[types[each.name]]
        for each in arguments
    }
    return TypedDict(name, fields)  # type: ignore[operator] # made at run time


def _signature(subject: str, function: object) -> inspect.Signature:
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"{subject} must be a function, got {function!r}")
    return inspect.signature(function)


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
    signature = _signature(field, function)
    kinds = [each.kind for each in signature.parameters.values()]
    if len(kinds) != count or not _POSITIONAL.issuperset(kinds):
        wanted = {"existing": "(ctx, args)", "convert": "(stored)"}.get(field, "(job)")
        raise TypeError(f"{field} must take {wanted}, got {signature}")
    return Hook(function, checks.is_async(function))
