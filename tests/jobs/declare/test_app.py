"""Declaring jobs: what a function becomes, and which declarations are refused."""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from holdfast.jobs.declare.app import App, known_downstreams
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.declare.kinds import Isolation
from holdfast.jobs.declare.retention import DOCUMENTS, Retention
from holdfast.jobs.declare.validation import ValidationError
from holdfast.resilience import presets
from holdfast.resilience.policy import (
    BreakerPolicy,
    ConcurrencyLimit,
    RateLimit,
    RetryBudget,
    RetryPolicy,
)

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Order:
    number: int


@dataclass(frozen=True, slots=True)
class Receipt:
    text: str


@pytest.fixture
def app():
    return App("invoices")


def test_a_function_becomes_a_kind_named_after_its_app_and_itself(app):
    @app.job()
    async def send(ctx: JobContext, args: Order) -> Receipt:
        """Send it."""
        return Receipt(str(args.number))

    kind = send.kind
    assert (kind.name, kind.app, kind.queue) == ("invoices.send", "invoices", "default")
    assert kind.handler.is_async
    assert kind.handler.takes_arguments
    assert kind.handler.arguments.decode('{"number":3}') == Order(3)
    assert kind.handler.results.decode('{"text":"x"}') == Receipt("x")
    assert app.kinds == (kind,)
    assert app.jobs == {"invoices.send": send}


def test_the_defaults_set_no_limits(app):
    @app.job()
    def send(ctx): ...

    kind = send.kind
    assert kind.policy == RetryPolicy()
    assert kind.retention == Retention()
    assert (kind.downstream, kind.timeout, kind.deadline, kind.concurrency) == (None,) * 4
    assert (kind.isolation, kind.existing, kind.before_retry) == (None,) * 3


def test_all_declared_options_are_kept(app):
    policy = RetryPolicy(max_attempts=7)
    gateway = Downstream("gateway", breaker=None)

    @app.job(
        "dispatch",
        queue="slow",
        retry=policy,
        downstream=gateway,
        timeout=120,
        deadline=600,
        concurrency=2,
        retention=DOCUMENTS,
        isolation="process",
        existing=lambda ctx, args: None,
    )
    def send(ctx, args: Order): ...

    kind = send.kind
    assert (kind.name, kind.queue, kind.policy) == ("invoices.dispatch", "slow", policy)
    assert (kind.downstream, kind.timeout, kind.deadline) == (gateway, 120.0, 600.0)
    assert (kind.concurrency, kind.retention, kind.isolation) == (2, DOCUMENTS, Isolation.PROCESS)
    assert kind.existing is not None


def test_a_declared_function_can_still_be_called(app):
    @app.job()
    def double(ctx, args: int) -> int:
        """Double it."""
        return args * 2

    assert double(None, 4) == 8
    assert (double.__name__, double.__doc__) == ("double", "Double it.")
    assert repr(double) == "<job invoices.double>"
    assert isinstance(double, JobFunction)
    assert JobFunction(double.kind)(None, 5) == 10


def test_a_function_without_annotations_takes_and_returns_json(app):
    @app.job()
    def send(ctx, args):
        return args

    assert send.kind.handler.arguments.encode({"a": [1]}) == '{"a":[1]}'
    assert send.kind.handler.results.decode("[1]") == [1]


def test_a_function_with_only_a_context_takes_no_arguments(app):
    @app.job()
    async def sweep(ctx) -> None: ...

    assert not sweep.kind.handler.takes_arguments
    with pytest.raises(ValidationError, match=r"arguments of invoices.sweep: the handler takes no"):
        sweep.kind.handler.arguments.encode(1)


def test_a_function_annotated_noreturn_has_no_result_type(app):
    @app.job()
    def doomed(ctx) -> NoReturn:
        raise RuntimeError

    assert doomed.kind.handler.results.decode("1") == 1


def test_annotations_may_be_strings_and_name_local_types(app):
    @dataclass
    class Local:
        n: int

    @app.job()
    def send(ctx: "JobContext", args: "Local") -> "list[Local]": ...

    assert send.kind.handler.arguments.decode('{"n":1}') == Local(1)
    assert send.kind.handler.results.decode('[{"n":1}]') == [Local(1)]


def test_an_unused_annotation_need_not_be_resolvable(app):
    @app.job()
    def send(ctx: "Nowhere", args: int): ...  # type: ignore[name-defined] # noqa: F821

    assert send.kind.handler.arguments.decode("1") == 1


def test_an_annotation_that_cannot_be_resolved_is_refused(app):
    with pytest.raises(TypeError, match=r"annotation of 'args' cannot be resolved .*TYPE_CHECKING"):

        @app.job()
        def send(ctx, args: "Decimal"): ...


def test_a_decorated_function_is_declared_by_its_wrapped_function(app):
    def twice(function):
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args) * 2

        return wrapper

    @app.job()
    @twice
    def send(ctx, args: Order) -> int:
        return args.number

    assert send.kind.handler.arguments.decode('{"number":3}') == Order(3)
    assert send(None, Order(3)) == 6


def test_timeout_and_deadline_override_those_of_the_policy(app):
    policy = RetryPolicy(attempt_timeout=5, deadline=50)

    @app.job(retry=policy)
    def inherited(ctx): ...

    @app.job(retry=policy, timeout=1, deadline=2)
    def own(ctx): ...

    assert (inherited.kind.timeout, inherited.kind.deadline) == (5, 50)
    assert (own.kind.timeout, own.kind.deadline) == (1, 2)


def test_a_downstream_takes_its_breaker_from_a_preset(app):
    @app.job(retry=presets.GATEWAY, downstream=Downstream("gateway"))
    def convert(ctx): ...

    assert convert.kind.breaker == presets.GATEWAY.breaker
    assert convert.kind.timeout == presets.GATEWAY.attempt_timeout


def test_hooks_are_declared_below_their_job(app):
    @app.job()
    async def send(ctx: JobContext, args: Order) -> Receipt: ...

    @send.existing
    async def stored(ctx: JobContext, args: Order) -> Receipt | None:
        return None

    @send.before_retry
    def has_file(job):
        return None

    assert send.kind.existing is not None
    assert send.kind.existing.call is stored
    assert send.kind.existing.is_async
    assert send.kind.before_retry is not None
    assert send.kind.before_retry.call is has_file
    assert not send.kind.before_retry.is_async
    assert app.kinds[0].existing is send.kind.existing


class Callable_:  # noqa: N801
    def __call__(self, ctx): ...


def generator(ctx):
    yield 1


async def async_generator(ctx):
    yield 1


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda ctx: None, "must be a function with a name"),
        (Callable_(), "must be a function with a name"),
        (Order, r"job invoices.Order must be a function, got <class"),
        (generator, "job invoices.generator must return its result, not yield"),
        (async_generator, "job invoices.async_generator must return its result, not yield"),
    ],
)
def test_only_functions_can_be_declared(app, function, message):
    with pytest.raises(TypeError, match=message):
        app.job()(function)
    assert app.kinds == ()


def no_parameters(): ...
def only_by_name(*, ctx): ...
def only_by_place(ctx, one, two, /): ...
def star(ctx, *args): ...
def two_stars(ctx, one, **others): ...


@pytest.mark.parametrize("function", [no_parameters, only_by_name, only_by_place, star, two_stars])
def test_a_function_with_other_parameters_is_refused(app, function):
    wanted = r"must take \(ctx\), \(ctx, args\) or several arguments by name after ctx, got \("
    with pytest.raises(TypeError, match=wanted):
        app.job()(function)


def test_arguments_that_cannot_be_stored_are_refused(app):
    with pytest.raises(TypeError, match=r"arguments of invoices.send: complex cannot be stored"):

        @app.job()
        def send(ctx, args: complex): ...


def test_a_result_that_cannot_be_stored_is_refused(app):
    with pytest.raises(TypeError, match=r"result of invoices.send: complex cannot be stored"):

        @app.job()
        def send(ctx) -> complex: ...


@pytest.mark.parametrize(
    "options, message",
    [
        ({"name": ""}, "name must not be empty"),
        ({"name": "a b"}, "name must be letters, digits, '_' and '-'.* got 'a b'"),
        ({"name": "other.send"}, "name must be letters"),
        ({"queue": "a/b"}, "queue must be letters.* got 'a/b'"),
        ({"queue": None}, "queue must be a string, got None"),
        ({"retry": 3}, "retry must be a RetryPolicy, got 3"),
        ({"downstream": "gateway"}, "downstream must be a Downstream, got 'gateway'"),
        ({"timeout": 0}, "timeout must be above 0, got 0"),
        ({"timeout": "2m"}, "timeout must be a number, got '2m'"),
        ({"deadline": -1}, "deadline must be above 0, got -1"),
        ({"concurrency": 0}, "concurrency must be at least 1, got 0"),
        ({"retention": 3600}, "retention must be a Retention, got 3600"),
        ({"isolation": "thread"}, "isolation must be None or 'process', got 'thread'"),
        ({"existing": lambda ctx: None}, r"existing must take \(ctx, args\), got \(ctx\)"),
        ({"existing": 3}, "existing must be a function, got 3"),
        ({"retry": RetryPolicy(max_attempts=2**40)}, "max_attempts must be at most 32767"),
        ({"retry": RetryPolicy(budget=RetryBudget())}, "jobs have no retry budget"),
        ({"retry": RetryPolicy(breaker=BreakerPolicy())}, "retry: breaker needs a downstream"),
        ({"retry": RetryPolicy(rate=RateLimit(per_day=1))}, "retry: rate needs a downstream"),
        ({"retry": RetryPolicy(concurrency=ConcurrencyLimit(1))}, "retry: concurrency needs a"),
    ],
)
def test_a_bad_declaration_is_refused_with_field_and_value(app, options, message):
    with pytest.raises((TypeError, ValueError), match=message):

        @app.job(**options)
        def send(ctx): ...

    assert app.kinds == ()


def test_missing_parentheses_are_reported(app):
    with pytest.raises(TypeError, match=r"write @app.job\(\), with parentheses"):

        @app.job
        def send(ctx): ...


def test_a_hook_with_other_parameters_is_refused(app):
    @app.job()
    def send(ctx): ...

    with pytest.raises(TypeError, match=r"before_retry must take \(job\), got \(\)"):
        send.before_retry(lambda: None)


def test_a_name_is_declared_once(app):
    @app.job()
    def send(ctx): ...

    with pytest.raises(ValueError, match=r"job invoices.send is declared twice"):
        app.job("send")(lambda_like)
    assert app.kinds == (send.kind,)


def lambda_like(ctx): ...


@pytest.mark.parametrize("name", ["", "1st", "in voices", "a.b", "ü", None])
def test_a_bad_name_of_an_app_is_refused(name):
    with pytest.raises((TypeError, ValueError), match="name must"):
        App(name)


def test_the_repr_of_an_app_shows_its_declarations(app):
    assert repr(app) == "<App invoices: no jobs>"
    app.job()(lambda_like)
    assert repr(app) == "<App invoices: invoices.lambda_like>"


def test_kinds_that_share_a_downstream_must_declare_it_alike(app):
    app.job("one", downstream=Downstream("gateway"))(lambda_like)
    app.job("two", downstream=Downstream("gateway"))(lambda_like)
    assert list(known_downstreams(app.kinds)) == ["gateway"]
    message = r"invoices.one and invoices.three declare downstream 'gateway' differently"
    with pytest.raises(ValueError, match=message):
        app.job("three", downstream=Downstream("gateway", concurrency=1))(lambda_like)
    assert len(app.kinds) == 2


def test_async_callables_and_static_methods_are_recognised(app):
    class Sends:
        async def __call__(self, ctx): ...

        async def method(self, ctx): ...

    async def inner(ctx): ...

    def plain(ctx):
        return inner(ctx)

    handlers = {"object": Sends(), "static": staticmethod(inner), "bound": Sends().method}
    for name, function in handlers.items():
        assert app.job(name)(function).kind.handler.is_async
    assert not app.job()(plain).kind.handler.is_async


def test_aliases_are_earlier_names_in_this_app_or_another():
    app = App("shop")

    @app.job(aliases=("post", "old_shop.mail", "post"))
    async def send(ctx: JobContext) -> None: ...

    assert send.kind.aliases == ("shop.post", "old_shop.mail")
    assert send.kind.names == ("shop.send", "shop.post", "old_shop.mail")


@pytest.mark.parametrize(
    "aliases, error, words",
    [
        ("post", TypeError, r"aliases must be several names, as in \('post',\)"),
        ((7,), TypeError, "aliases"),
        (("a b",), ValueError, "aliases must be letters"),
        (("a.b.c",), ValueError, "aliases must be letters"),
        (("other",), ValueError, "alias of both shop.other and shop.send"),
    ],
)
def test_an_alias_that_cannot_be_one_is_refused(aliases, error, words):
    app = App("shop")

    @app.job()
    async def other(ctx: JobContext) -> None: ...

    with pytest.raises(error, match=words):

        @app.job(aliases=aliases)
        async def send(ctx: JobContext) -> None: ...


@pytest.mark.parametrize("convert", [7, lambda: None, lambda a, b: None])
def test_a_convert_that_cannot_be_called_is_refused(convert):
    with pytest.raises(TypeError, match="convert must"):
        App("shop").job(convert=convert)


def test_a_convert_is_a_plain_function():
    async def convert(stored): ...

    with pytest.raises(TypeError, match="convert must be a plain function"):
        App("shop").job(convert=convert)


def test_a_listener_must_be_callable():
    with pytest.raises(TypeError, match="a listener must take an event, got 'print'"):
        App("shop", listeners=["print"])
    assert App("shop", listeners=[print]).listeners == (print,)
