"""`holdfast outbox list`, `requeue` and `discard`."""

import asyncio
import json
import sys

import apsw

from holdfast.bootstrap import Engine
from holdfast.cli import main
from holdfast.outbox import MessageStatus


def add(url, *types, failed=False):
    """Add a message of each of `types`, and return their ids."""

    async def scenario():
        async with Engine(url) as engine:
            connection = apsw.Connection(url.removeprefix("sqlite:///"))
            found = []
            for number, message_type in enumerate(types):
                with connection:
                    found.append(
                        await engine.outbox.add(
                            connection, f"a\tb{number}", message_type, {"some_n": 1}
                        )
                    )
            if failed:
                connection.execute(
                    "UPDATE holdfast_outbox SET status = 'failed', processed_at = created_at, "
                    "error_message = 'no such queue'"
                )
            connection.close()
            return found

    return asyncio.run(scenario())


def status(url, message_id):
    async def look():
        async with Engine(url) as engine:
            found = await engine.outbox.get(message_id)
            return None if found is None else found.status

    return asyncio.run(look())


def test_messages_are_listed_as_tsv_when_piped_and_as_json(url, capsys):
    (added,) = add(url, "letter.written")
    assert main(["outbox", "list"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split("\t")[:3] == ["id", "created_at", "status"]
    assert row.split("\t")[0::2] == [added, "pending", "letter.written", ""]
    assert main(["outbox", "list", "--json", "--status", "pending"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["id"], shown["aggregateId"], shown["payload"]) == (added, "a\tb0", {"some_n": 1})
    assert (shown["processedAt"], shown["createdAt"][-1]) == (None, "Z")
    assert main(["outbox", "list", "--status", "failed"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["outbox", "list", "--limit", "0"]) == 1
    assert main(["outbox", "list", "--status", "lost"]) == 2


def test_a_terminal_gets_a_table(url, capsys, monkeypatch):
    add(url, "letter.written")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["outbox", "list"]) == 0
    assert "letter.written  a b" in capsys.readouterr().out


def test_failed_messages_are_requeued_by_id_and_discarded_only_with_yes(url, capsys):
    first, second, third = add(url, "one", "two", "three", failed=True)
    assert main(["outbox", "requeue", first]) == 0
    assert capsys.readouterr().out == f"requeued {first}\n"
    assert status(url, first) is MessageStatus.PENDING

    assert main(["outbox", "discard", second]) == 2
    assert "Add --yes" in capsys.readouterr().err
    assert main(["outbox", "discard", second, "--yes"]) == 0
    assert capsys.readouterr().out == f"discarded {second}\n"
    assert status(url, second) is None
    assert status(url, third) is MessageStatus.FAILED


def test_without_ids_all_failed_messages_are_meant_and_counted_first(url, capsys):
    first, second = add(url, "one", "two", failed=True)
    assert main(["outbox", "requeue", "--dry-run"]) == 0
    assert capsys.readouterr().out == "would requeue 2 messages\n"
    assert main(["outbox", "requeue"]) == 2
    assert status(url, first) is MessageStatus.FAILED
    capsys.readouterr()
    assert main(["outbox", "requeue", "--yes", "--json"]) == 0
    assert {each["id"] for each in json.loads(capsys.readouterr().out)} == {first, second}


def test_a_message_that_is_not_failed_is_refused_with_exit_code_1(url, capsys):
    (pending,) = add(url, "one")
    assert main(["outbox", "requeue", pending]) == 1
    assert main(["outbox", "requeue", "unknown"]) == 2
    refused, unknown = capsys.readouterr().err.splitlines()
    assert "is pending, not failed" in refused
    assert "has no message 'unknown'" in unknown


def test_a_list_that_is_cut_says_so_on_standard_error(url, capsys):
    add(url, "one", "two")
    assert main(["outbox", "list", "--limit", "1"]) == 0
    assert "--limit shows more" in capsys.readouterr().err
