"""`holdfast dlq list`, `show`, `requeue` and `discard`."""

import asyncio
import json

import pytest
from tests.cli.commands.shop import with_engine

from holdfast.cli import main
from holdfast.cli.audit_trail import operator_name
from holdfast.messaging import QueueSpec, RabbitPublisher


@pytest.fixture
def letters(rabbitmq_server, queue_name, monkeypatch):
    """The name of a queue with two dead letters, the second of which is not JSON."""
    monkeypatch.setenv("RABBITMQ_URL", rabbitmq_server.url())

    async def fill():
        queues = [QueueSpec(queue_name), QueueSpec(f"{queue_name}.origin", kind="quorum")]
        publisher = RabbitPublisher(rabbitmq_server.url(), queues)
        about = {
            "failureReason": "GW_5XX", "attemptsMade": 4, "lastError": "odd\ttext",
            "originalQueue": f"{queue_name}.origin", "timestamp": "2026-11-18T02:00:00+00:00",
        }  # fmt: skip
        await publisher.send(b'{"n": 1}', queue_name, message_id="a", headers=about)
        await publisher.send(b"\xff", queue_name, message_id="b")
        await publisher.close()

    asyncio.run(fill())
    return queue_name


def ids(capsys, queue):
    """Return the ids that `dlq list --json` prints."""
    assert main(["dlq", "list", queue, "--json"]) == 0
    return [letter["id"] for letter in json.loads(capsys.readouterr().out)]


def test_letters_are_listed_as_tsv_when_piped_and_shown_as_json(letters, capsys):
    assert main(["dlq", "list", letters]) == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split("\t")[:2] == ["id", "timestamp"]
    assert first.split("\t")[2:] == [f"{letters}.origin", "GW_5XX", "4", "odd text"]
    assert second.split("\t")[0] == "b"
    assert main(["dlq", "show", letters, "a"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["body"], shown["headers"]["attemptsMade"]) == ({"n": 1}, 4)
    assert main(["dlq", "show", letters, "b"]) == 0
    assert json.loads(capsys.readouterr().out)["body"] == "\ufffd"


def test_a_letter_is_requeued_to_the_queue_that_it_came_from(letters, capsys):
    assert main(["dlq", "requeue", letters, "a"]) == 0
    assert capsys.readouterr().out == f"requeued a to {letters}.origin\n"
    assert ids(capsys, letters) == ["b"]
    assert ids(capsys, f"{letters}.origin") == ["a"]


def test_a_letter_is_discarded_only_with_yes(letters, capsys):
    assert main(["dlq", "discard", letters, "b"]) == 2
    assert "add --yes" in capsys.readouterr().err
    assert main(["dlq", "discard", letters, "b", "--yes"]) == 0
    capsys.readouterr()
    assert ids(capsys, letters) == ["a"]


def test_changes_are_recorded_where_there_is_a_store(letters, empty, capsys):
    assert main(["dlq", "requeue", letters, "a"]) == 0
    assert main(["dlq", "discard", letters, "b", "--yes"]) == 0
    assert "audit" not in capsys.readouterr().err

    async def read(engine):
        return (await engine.audit.list()).entries

    found = [
        (entry.who, entry.action, entry.target, entry.detail) for entry in with_engine(empty, read)
    ]
    assert found == [
        (operator_name(), "dlq.discard", "b", {"queue": letters}),
        (operator_name(), "dlq.requeue", "a", {"queue": letters}),
    ]


def test_without_a_store_a_change_says_that_it_is_not_recorded(letters, url, capsys):
    assert main(["dlq", "discard", letters, "b", "--yes"]) == 0
    assert "the audit log does not have this" in capsys.readouterr().err
    assert ids(capsys, letters) == ["a"]


def test_what_does_not_exist_is_named_in_one_line(letters, capsys, monkeypatch):
    assert main(["dlq", "show", letters, "z"]) == 1
    assert "holds no message 'z'" in capsys.readouterr().err
    assert main(["dlq", "list", "nowhere.dlq"]) == 1
    assert "has no queue 'nowhere.dlq'" in capsys.readouterr().err
    monkeypatch.delenv("RABBITMQ_URL")
    assert main(["dlq", "list", letters]) == 2
    assert "set RABBITMQ_URL" in capsys.readouterr().err
