"""The process of `holdfast relay`."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from functools import partial

import apsw
import pytest
from tests.support.waiting import until_sync

from holdfast.bootstrap import Engine
from holdfast.cli import main
from holdfast.messaging import DeadLetterQueue, QueueSpec
from holdfast.outbox import MessageStatus

MODULE = """
    from holdfast import App, JobContext
    from dataclasses import replace
    from holdfast.http import MessageQueue, ServedApp

    app = App("letters")

    @app.job()
    async def write(ctx: JobContext, args: dict) -> None: ...

    class Letters(ServedApp):
        message_jobs = {"letter.written": write}

    class Posted(ServedApp):
        message_queues = (
            MessageQueue("NAME.plain", dead_letter_to="NAME.dead"),
            MessageQueue("NAME.formed", form=lambda it: replace(it, payload='"formed"')),
        )

    served = Letters(app)
    again = Letters(App("others"))
    posted = Posted(App("posted"))
    twice = Posted(App("twice"))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch, queue_name):
    text = textwrap.dedent(MODULE).replace("NAME", queue_name)
    (tmp_path / "relayed_letters.py").write_text(text)
    monkeypatch.delitem(sys.modules, "relayed_letters", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", f"sqlite:///{tmp_path}/work.db")
    monkeypatch.delenv("RABBITMQ_URL", raising=False)
    return tmp_path


def add(folder, *types):
    """Add a message of each of `types`, and return their ids."""

    async def scenario():
        async with Engine(f"sqlite:///{folder}/work.db") as engine:
            connection = apsw.Connection(f"{folder}/work.db")
            found = []
            for message_type in types:
                with connection:
                    found.append(
                        await engine.outbox.add(connection, "a\tb", message_type, {"n": 1})
                    )
            connection.close()
            return found

    return asyncio.run(scenario())


async def is_published(folder, message_id):
    async with Engine(f"sqlite:///{folder}/work.db") as engine:
        return (await engine.outbox.get(message_id)).status is MessageStatus.PUBLISHED


def test_without_a_broker_messages_become_jobs_of_the_app(folder):
    (added,) = add(folder, "letter.written")
    assert main(["relay", "relayed_letters:served", "--until-idle"]) == 0
    assert asyncio.run(is_published(folder, added))


def test_a_relay_without_a_receiver_is_refused_in_one_line(folder, capsys):
    assert main(["relay", "relayed_letters:app"]) == 2
    assert "nothing takes messages: set RABBITMQ_URL" in capsys.readouterr().err
    assert main(["relay", "relayed_letters:served", "relayed_letters:again"]) == 2
    assert "two apps take messages of type 'letter.written'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("OUTBOX_BATCH_SIZE", "none", "OUTBOX_BATCH_SIZE must be a whole number"),
        ("RABBITMQ_URL", "rabbit:5672", "RABBITMQ_URL must be an address like amqp://"),
    ],
)
def test_a_bad_setting_is_named_in_one_line(folder, capsys, monkeypatch, name, value, line):
    monkeypatch.setenv(name, value)
    assert main(["relay", "relayed_letters:served"]) == 1
    assert line in capsys.readouterr().err


def test_a_broker_that_refuses_the_password_ends_the_relay_with_one_line(
    folder, capsys, monkeypatch, rabbitmq_server
):
    monkeypatch.setenv("RABBITMQ_URL", rabbitmq_server.url("wrong"))
    assert main(["relay"]) == 1
    (line,) = [
        each for each in capsys.readouterr().err.splitlines() if each.startswith("holdfast:")
    ]
    assert line.endswith("refuses the user name or the password; check RABBITMQ_URL")


def test_a_killed_relay_loses_nothing_and_a_stopped_one_ends_by_itself(
    folder, rabbitmq_server, queue_name
):
    queue = DeadLetterQueue(rabbitmq_server.url(), QueueSpec(queue_name))
    assert asyncio.run(queue.list()) == ()  # declares it
    environment = {**os.environ, "RABBITMQ_URL": rabbitmq_server.url()}
    command = [sys.executable, "-m", "holdfast", "relay"]
    added = add(folder, *[queue_name] * 40)
    for number in (signal.SIGKILL, signal.SIGTERM):
        process = subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.PIPE)
        until_sync(queue.list)
        if number is signal.SIGTERM:
            added += add(folder, queue_name)  # the last one of its aggregate
            until_sync(partial(is_published, folder, added[-1]))
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == 0
    arrived = {message.message_id for message in asyncio.run(queue.list(limit=1000))}
    assert arrived == set(added)


def test_a_relay_declares_the_queues_of_its_apps_and_sends_what_their_consumers_take(
    folder, rabbitmq_server, queue_name, monkeypatch
):
    monkeypatch.setenv("RABBITMQ_URL", rabbitmq_server.url())
    for kind in ("plain", "formed"):
        add(folder, f"{queue_name}.{kind}")
    assert main(["relay", "relayed_letters:posted", "--until-idle"]) == 0
    bodies = []
    for kind in ("plain", "formed", "dead"):
        queue = DeadLetterQueue(rabbitmq_server.url(), f"{queue_name}.{kind}")
        bodies.append([message.body for message in asyncio.run(queue.list())])
    assert bodies == [[b'{"n":1}'], [b'"formed"'], []]


def test_a_queue_that_two_apps_declare_is_refused_in_one_line(folder, capsys, monkeypatch):
    monkeypatch.setenv("RABBITMQ_URL", "amqp://127.0.0.1:1/")
    assert main(["relay", "relayed_letters:posted", "relayed_letters:twice"]) == 2
    assert "two apps declare the queue" in capsys.readouterr().err


def test_serve_relays_to_the_jobs_of_its_apps_and_stops_by_itself(folder):
    (added,) = add(folder, "letter.written")
    environment = {**os.environ, "PORT": "0", "HOLDFAST_DATA_DIR": str(folder / "data")}
    command = [sys.executable, "-m", "holdfast", "serve", "relayed_letters:served"]
    process = subprocess.Popen(
        command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until_sync(lambda: is_published(folder, added))
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, b"Traceback" in errors) == (0, False)


def test_a_broker_that_refuses_the_password_ends_serve_with_one_line(folder, rabbitmq_server):
    environment = {
        **os.environ,
        "PORT": "0",
        "HOLDFAST_DATA_DIR": str(folder / "data"),
        "RABBITMQ_URL": rabbitmq_server.url("wrong"),
    }
    command = [sys.executable, "-m", "holdfast", "serve", "relayed_letters:served"]
    done = subprocess.run(
        command,
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "refuses the user name or the password; check RABBITMQ_URL" in done.stderr
    assert "Traceback" not in done.stderr
