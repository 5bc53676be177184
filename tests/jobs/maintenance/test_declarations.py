"""Which workers share the leadership for retention and probes."""

from functools import partial

from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.retention import Retention
from holdfast.jobs.maintenance.declarations import fingerprint


def declared(*names, **options):
    app = App("shop")
    for name in names:

        @app.job(name=name, **options)
        async def work(ctx): ...

    return fingerprint(app.kinds)


def probe(): ...


def delete_files(job): ...


def test_the_same_declarations_have_one_digest_in_any_order_and_with_any_timeout():
    assert declared("a", "b") == declared("b", "a") != declared("a")
    assert declared("a", timeout=1) == declared("a", timeout=2)


def test_everything_that_retention_and_probes_use_changes_the_digest():
    prints = {
        declared("a"),
        declared("a", retention=Retention(complete_for=1)),
        declared("a", retention=Retention(on_deleted=delete_files)),
        declared("a", downstream=Downstream("gw", probe=probe)),
        declared("a", downstream=Downstream("gw", probe=probe, probe_every=1)),
        declared("a", downstream=Downstream("gw", probe=probe, key=str)),
        declared("a", downstream=Downstream("gw", probe=partial(probe))),
        declared("a", downstream=Downstream("other", probe=probe)),
    }
    assert len(prints) == 8


def test_a_downstream_without_a_probe_does_not_matter():
    assert declared("a", downstream=Downstream("gw")) == declared("a")


def test_objects_that_are_called_have_the_same_name_in_every_process():
    again = declared("a", downstream=Downstream("gw", probe=partial(probe)))
    assert declared("a", downstream=Downstream("gw", probe=partial(probe))) == again
