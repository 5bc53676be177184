"""The kinds of an engine's apps: found by name, refused if two apps conflict."""

import asyncio
import threading
from dataclasses import replace

import pytest

from holdfast.errors import ErrorInfo, Permanent
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.registry import Registry
from holdfast.jobs.exceptions import UnknownKind
from holdfast.jobs.model import Job

BLANK = dict.fromkeys(Job.__dataclass_fields__)


def job(kind: str) -> Job:
    return Job(**{**BLANK, "id": "j1", "kind": kind})


def handler(ctx): ...


@pytest.fixture
def app():
    return App("invoices")


def test_kinds_are_found_by_name_even_if_they_are_declared_later(app):
    registry = Registry([app])
    app.job("send")(handler)
    assert registry.kind("invoices.send") is app.kinds[0]
    assert list(registry.kinds) == ["invoices.send"]


@pytest.mark.parametrize("name", ["invoices.sent", "other.send", "send", ""])
def test_an_unknown_kind_is_refused_with_the_declared_ones(app, name):
    app.job("send")(handler)
    assert Registry([app]).find(name) is None
    with pytest.raises(UnknownKind, match=r"declared: invoices.send"):
        Registry([app]).kind(name)


def test_two_apps_of_one_name_are_refused(app):
    with pytest.raises(ValueError, match="two apps are called 'invoices'"):
        Registry([app, App("invoices")])


def test_the_same_app_twice_is_one(app):
    app.job("send")(handler)
    assert list(Registry([app, app]).kinds) == ["invoices.send"]


def test_only_apps_are_accepted():
    with pytest.raises(TypeError, match="apps must be a App, got 'invoices'"):
        Registry(["invoices"])


def test_two_apps_must_declare_a_downstream_alike(app):
    other = App("other")
    app.job("send", downstream=Downstream("gateway"))(handler)
    other.job("send", downstream=Downstream("gateway", concurrency=3))(handler)
    with pytest.raises(ValueError, match="declare downstream 'gateway' differently"):
        Registry([app, other])


def test_downstreams_are_found_by_name(app):
    app.job("send", downstream=Downstream("gateway", concurrency=3))(handler)
    assert Registry([app]).downstreams()["gateway"].concurrency == 3


@pytest.mark.parametrize(
    "name, base",
    [
        ("gateway:eu", "gateway:eu"),
        ("host:example.org:8080", "host"),
        ("webhook:example.org", "webhook"),
        ("elsewhere", "elsewhere"),
        ("", ""),
    ],
)
def test_the_key_of_a_downstream_is_left_out_also_where_no_app_declares_it(app, name, base):
    app.job("send", downstream=Downstream("gateway:eu"))(handler)
    app.job("ask", downstream=Downstream("host", key=str))(handler)
    assert Registry([app]).downstream_base(name) == base


def test_a_job_without_a_hook_or_of_an_unknown_kind_may_be_retried(app):
    app.job("send")(handler)
    registry = Registry([app])
    for kind in ("invoices.send", "gone.kind"):
        assert not registry.has_retry_check(kind)
        asyncio.run(registry.check_retry(job(kind)))


def test_a_plain_hook_is_called_in_a_thread_and_may_refuse(app):
    threads = []

    def gone(found):
        threads.append(threading.current_thread())
        raise Permanent("SOURCE_GONE")

    app.job("send")(handler).before_retry(gone)
    registry = Registry([app])
    assert registry.has_retry_check("invoices.send")
    with pytest.raises(Permanent) as caught:
        asyncio.run(registry.check_retry(job("invoices.send")))
    assert caught.value.code == "SOURCE_GONE"
    assert threads != [threading.main_thread()]


def test_an_async_hook_is_called_with_the_job(app):
    asked = []

    async def look(found):
        asked.append(found.id)

    app.job("send")(handler).before_retry(look)
    asyncio.run(Registry([app]).check_retry(job("invoices.send")))
    assert asked == ["j1"]


BROKE = ErrorInfo("BROKE", "There is no money.", 402)


def test_the_codes_of_all_apps_and_of_the_library_are_known():
    registry = Registry([App("shop", errors=[BROKE]), App("bank", errors=[BROKE])])

    assert registry.errors["BROKE"] is BROKE
    assert registry.errors["TIMEOUT"].http_status == 504


def test_a_code_that_means_two_things_is_refused():
    other = replace(BROKE, http_status=422)
    with pytest.raises(ValueError, match="shop and bank declare BROKE differently"):
        Registry([App("shop", errors=[BROKE]), App("bank", errors=[other])])


def test_a_code_is_declared_once_in_an_app():
    with pytest.raises(ValueError, match="BROKE is declared twice"):
        App("shop", errors=[BROKE, BROKE])
    with pytest.raises(ValueError, match="TIMEOUT is a code of the library; choose another"):
        App("shop", errors=[ErrorInfo("TIMEOUT", "Too late.")])
    with pytest.raises(TypeError, match="errors"):
        App("shop", errors=["BROKE"])


def test_a_kind_is_found_by_its_aliases():
    app, renamed = App("shop"), App("new_shop")

    @renamed.job(aliases=("shop.send", "post"))
    def send(ctx: JobContext) -> None: ...

    registry = Registry([app, renamed])
    for name in ("new_shop.send", "new_shop.post", "shop.send"):
        assert registry.kind(name) is send.kind
    assert list(registry.kinds) == ["new_shop.send"]


def test_an_alias_of_another_apps_kind_is_refused():
    app, renamed = App("shop"), App("new_shop")

    @app.job()
    def send(ctx: JobContext) -> None: ...

    @renamed.job("send", aliases=("shop.send",))
    def send_again(ctx: JobContext) -> None: ...

    with pytest.raises(ValueError, match=r"both shop\.send and new_shop\.send"):
        Registry([app, renamed])
