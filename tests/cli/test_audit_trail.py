"""Every command that changes something writes it to the audit log, with the name of the user."""

import os
import pwd
import shutil
import signal

import pytest
from tests.cli.commands import shop
from tests.cli.commands.test_outbox import add as add_messages

from holdfast.cli import main
from holdfast.cli.application import application
from holdfast.cli.audit_trail import operator_name
from holdfast.jobs.client.dead_letters import DeadLetters
from holdfast.jobs.store_port import StoreBusy
from holdfast.jobs.store_values import ClaimRequest
from holdfast.store.sqlite.store import SQLiteStore

APP = "tests.cli.commands.shop:app"
READING = {
    "dead list", "dead show", "dlq list", "dlq show", "doctor", "downstream list", "intake state",
    "jobs list", "jobs show", "keys list", "kinds list", "outbox list", "owners list",
    "owners show", "periodic list", "queues list", "top", "workers list",
}  # fmt: skip
"""Commands that change nothing."""
WITHOUT_ENTRY = {
    "serve": "a service; people's changes come to it over HTTP",
    "worker": "a service",
    "relay": "a service",
    "tour": "shows the library on a store of its own",
    "gateway": "a service of an app",
    "migrate": "the schema lists its own migrations; before the first there is no audit log",
    "backup": "reads the store and writes a folder",
    "restore": "only into an empty folder; the log that it brings is that of the backup",
}
OF_A_BROKER = {"dlq requeue", "dlq discard"}
"""Tested with a real broker, in tests/cli/commands/test_dlq.py."""
CHANGES = {
    "jobs retry": (["{dead}"], "jobs.retry", "{dead}"),
    "jobs cancel": (["{waiting}"], "jobs.cancel", "{waiting}"),
    "dead requeue": (["{dead}", "--rate", "5"], "dead-letters.requeue", ""),
    "dead discard": (["--kind", "shop.charge", "--yes"], "dead-letters.discard", ""),
    "outbox requeue": (["{message}"], "outbox.requeue", "{message}"),
    "outbox discard": (["{message}", "--yes"], "outbox.discard", "{message}"),
    "erase": (["ann", APP, "--yes"], "owners.erase", "ann"),
    "owners limit": (["ann", "--concurrency", "5"], "owner-limits.set", "ann"),
    "owners clear": (["ann"], "owner-limits.delete", "ann"),
    "downstream hold": (["bank"], "downstreams.hold", "bank"),
    "downstream release": (["bank"], "downstreams.release", "bank"),
    "downstream reset": (["bank"], "downstreams.reset", "bank"),
    "queues pause": (["mail"], "queues.pause", "mail"),
    "queues resume": (["mail"], "queues.resume", "mail"),
    "kinds pause": (["shop.mail"], "kinds.pause", "shop.mail"),
    "kinds resume": (["shop.mail"], "kinds.resume", "shop.mail"),
    "workers finish": (["w1"], "workers.finish", "w1"),
    "periodic pause": (["shop.tidy"], "periodic.pause", "shop.tidy"),
    "periodic resume": (["shop.tidy"], "periodic.resume", "shop.tidy"),
    "periodic run": (["shop.tidy", "--app", APP], "periodic.run", "shop.tidy"),
    "intake pause": (["--reason", "the disk is replaced"], "intake.pause", ""),
    "intake resume": ([], "intake.resume", ""),
    "keys create": (["laptop", "--organisation", "acme"], "keys.create", None),
    "keys revoke": (["{key}"], "keys.revoke", "{key}"),
}
"""The words of each command that changes something, and the entry that it writes."""


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder with a store that has something for every command, and the ids of it."""
    folder = tmp_path_factory.mktemp("audit")
    url = f"sqlite:///{folder}/work.db"
    dead, waiting = shop.filled(url, -1, letters=1)
    (message,) = add_messages(url, "letter.written", failed=True)

    async def more(engine):
        await engine.enqueue(shop.mail, "hello", owner="ann")
        await engine.intake.pause("for a test")
        await engine.enqueue(shop.charge, 1)
        await engine.store.tick("w1", [], ClaimRequest(1, ("default",), {"shop.charge": None}))
        return (await engine.keys.create(owner="ann", organisation="acme", name="phone")).key.id

    return folder, {
        "dead": dead, "waiting": waiting, "message": message, "key": shop.with_engine(url, more)
    }  # fmt: skip


@pytest.fixture
def store(template, tmp_path, monkeypatch):
    """A copy of that store, which is the one in the settings; its address, and the ids."""
    folder, ids = template
    shutil.copytree(folder, tmp_path / "copy")
    url = f"sqlite:///{tmp_path}/copy/work.db"
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", url)
    return {"url": url, **ids}


def commands(group, before=()):
    for name, command in group.commands.items():
        words = (*before, name)
        if hasattr(command, "commands"):
            yield from commands(command, words)
        else:
            yield " ".join(words)


def test_every_command_is_known_to_change_something_or_not_to():
    assert set(commands(application())) == READING | set(WITHOUT_ENTRY) | OF_A_BROKER | set(CHANGES)


@pytest.mark.parametrize("command", CHANGES)
def test_a_change_is_recorded_with_the_user_who_ran_it(command, store, capsys):
    words, action, target = CHANGES[command]

    code = main([*command.split(), *(word.format(**store) for word in words)])

    assert code == 0, capsys.readouterr().err
    (entry,) = entries(store["url"])
    assert (entry.who, entry.role, entry.action) == (operator_name(), "full", action)
    if target is not None:
        assert entry.target == target.format(**store)


def test_a_change_of_many_is_recorded_with_what_was_chosen(store):
    main(["dead", "requeue", "--error", "CARD_DECLINED", "--yes", "--rate", "0"])

    (entry,) = entries(store["url"])
    assert entry.detail == {"filter": {"error_code": "CARD_DECLINED"}, "total": 1, "rate": None}


def test_chosen_ids_are_recorded(store):
    main(["dead", "requeue", store["dead"]])

    (entry,) = entries(store["url"])
    assert entry.detail == {"filter": {"id": [store["dead"]]}, "total": 1, "rate": 100.0}


def test_a_new_key_is_recorded_without_its_secret(store, capsys):
    main(["keys", "create", "laptop", "--organisation", "acme"])

    secret = capsys.readouterr().out.strip()
    (entry,) = entries(store["url"])
    assert entry.detail == {"owner": "acme", "organisation": "acme", "name": "laptop"}
    assert secret not in repr(entry)


@pytest.mark.parametrize(
    "words",
    [
        ("dead", "requeue", "--dry-run"),
        ("dead", "discard", "--dry-run"),
        ("outbox", "discard", "{message}", "--dry-run"),
        ("erase", "ann", APP, "--dry-run"),
        ("jobs", "retry", "{waiting}"),
        ("downstream", "hold", "nowhere"),
        ("keys", "revoke", "nothing"),
    ],
)
def test_a_dry_run_and_what_is_refused_are_not_recorded(words, store):
    main([word.format(**store) for word in words])

    assert entries(store["url"]) == ()


def test_a_requeue_that_is_interrupted_is_recorded_with_how_far_it_came(store, monkeypatch):
    pause = DeadLetters._pause

    async def interrupted(self, seconds, stop):
        signal.raise_signal(signal.SIGINT)
        await pause(self, seconds, stop)

    monkeypatch.setattr(DeadLetters, "_pause", interrupted)
    # A shell starts background processes, such as these tests, with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["dead", "requeue", "--yes", "--rate", "0.1"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    stopped, begun = entries(store["url"])
    assert (begun.action, begun.detail["total"]) == ("dead-letters.requeue", 1)
    assert (stopped.action, stopped.detail) == ("dead-letters.stop", {"done": 1, "total": 1})


def test_a_change_whose_entry_cannot_be_written_is_in_the_log_of_the_process(
    store, monkeypatch, caplog, capsys
):
    async def refused(*_args):
        raise StoreBusy("busy")

    monkeypatch.setattr(SQLiteStore, "add_audit", refused)

    assert main(["queues", "pause", "mail"]) == 1
    assert f"not in the audit log: {operator_name()} queues.pause mail" in caplog.text
    assert capsys.readouterr().err.endswith("holdfast: busy\n")


def test_a_user_without_a_name_is_recorded_by_number(monkeypatch):
    assert operator_name() == f"cli:{pwd.getpwuid(os.geteuid()).pw_name}"
    monkeypatch.setattr(os, "geteuid", lambda: 4_294_967_000)
    assert operator_name() == "cli:4294967000"


def entries(url):
    async def read(engine):
        return (await engine.audit.list()).entries

    return shop.with_engine(url, read)
