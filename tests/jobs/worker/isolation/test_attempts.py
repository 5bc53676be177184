"""The child's side, in process: what it answers, and what reaches it while a handler runs."""

import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from tests.support import isolated
from tests.support.workers import claim

from holdfast.children import ChildLimits, FrameKind
from holdfast.children.frames import pack, receive
from holdfast.jobs.worker.isolation.attempts import Attempts
from holdfast.jobs.worker.isolation.messages import dump_claim, load_failure


@contextmanager
def serving(job, output_bytes=1000):
    """Serve a kind on a thread; yield the parent's end."""
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    gone, limits = threading.Event(), ChildLimits(output_bytes=output_bytes)
    child = Attempts(theirs, gone.set)
    thread = threading.Thread(target=child.serve, args=(job.kind, limits))
    thread.start()
    try:
        yield ours
    finally:
        ours.close()
        thread.join(20)
        theirs.close()
    assert gone.is_set()
    assert not thread.is_alive()


def ask(parent, arguments="null", **fields):
    parent.sendall(pack(FrameKind.REQUEST, dump_claim(claim(arguments=arguments, **fields))))
    assert receive(parent)[0] is FrameKind.TAKEN


def test_one_attempt_after_another_is_answered():
    with serving(isolated.echo) as parent:
        for attempt in (1, 2):
            ask(parent, '"x"', attempt=attempt)
            assert receive(parent) == (FrameKind.ANSWER, f'"x {attempt} k:j1"')


def test_a_handler_can_ask_for_its_time_without_its_context():
    with serving(isolated.time_left) as parent:
        ask(parent)
        assert receive(parent) == (FrameKind.ANSWER, "true")


@pytest.mark.parametrize(
    "what, code", [("permanent", "PARSE_ERROR"), ("later", "GW_UNAVAILABLE"), ("exit", "UNKNOWN")]
)
def test_the_error_of_a_handler_is_sent_to_the_parent(what, code):
    with serving(isolated.fail) as parent:
        ask(parent, json.dumps(what))
        kind, body = receive(parent)
        assert (kind, load_failure(body).diagnosis.code) == (FrameKind.ERROR, code)


def test_invalid_arguments_are_reported():
    with serving(isolated.shout) as parent:
        ask(parent, '"x"')
        assert load_failure(receive(parent)[1]).diagnosis.code == "ARGUMENTS_MISMATCH"


def test_an_answer_that_is_too_large_is_reported():
    with serving(isolated.shout, output_bytes=20) as parent:
        ask(parent, "10")
        assert receive(parent) == (FrameKind.ANSWER, '"xxxxxxxxxx"')
        ask(parent, "100")
        assert load_failure(receive(parent)[1]).diagnosis.code == "TOO_LARGE"


def test_running_out_of_memory_is_reported(monkeypatch):
    def hog(ctx):
        raise MemoryError

    handler = isolated.hog.kind.handler
    monkeypatch.setattr(type(handler), "call", lambda self, context, arguments: hog(context))
    with serving(isolated.hog) as parent:
        ask(parent)
        assert load_failure(receive(parent)[1]).diagnosis.code == "MEMORY_ERROR"


def test_progress_and_requests_to_stop_pass_while_a_handler_runs(tmp_path):
    with serving(isolated.wait_async) as parent:
        path = tmp_path / "started"
        ask(parent, json.dumps(str(path)))
        while not path.exists():
            threading.Event().wait(0.005)
        parent.sendall(pack(FrameKind.CANCEL, "requested"))
        assert receive(parent)[0] is FrameKind.ERROR
        assert path.read_text("ascii") == "requested"
        parent.sendall(pack(FrameKind.CANCEL, "requested"))
    with serving(isolated.report) as parent:
        path = tmp_path / "go on"
        ask(parent, json.dumps(str(path)))
        assert receive(parent) == (FrameKind.PROGRESS, [0.5, "half"])
        path.touch()
        assert receive(parent) == (FrameKind.ANSWER, "null")


def test_an_existing_answer_is_asked_for_first():
    with serving(isolated.again) as parent:
        ask(parent, token=2)
        assert receive(parent) == (FrameKind.ANSWER, '"from before"')


def test_frequent_progress_is_thinned_out_and_the_last_update_always_sent():
    with serving(isolated.chatter) as parent:
        ask(parent, "5000")
        updates = []
        while not updates or updates[-1] != [1.0, "the last"]:
            kind, update = receive(parent)
            assert kind is FrameKind.PROGRESS
            updates.append(update)
        assert updates[0] == [0.0, "step 0"]
        assert len(updates) < 1000
        parent.sendall(pack(FrameKind.CANCEL, "requested"))
        assert receive(parent)[0] is FrameKind.ANSWER


def test_progress_is_sent_at_once_where_no_thread_can_be_started(monkeypatch):
    def full(self):
        raise RuntimeError("can't start new thread")

    with serving(isolated.chatter) as parent:
        monkeypatch.setattr(threading.Timer, "start", full)
        ask(parent, "3")
        notes = [receive(parent)[1][1] for _ in range(4)]
        assert notes == ["step 0", "step 1", "step 2", "the last"]
        parent.sendall(pack(FrameKind.CANCEL, "requested"))
        assert receive(parent)[0] is FrameKind.ANSWER


def test_a_copy_that_a_handler_forks_answers_nothing():
    program = """
import os, socket, sys
from tests.support import isolated
from tests.support.workers import claim
from holdfast.children import ChildLimits, FrameKind
from holdfast.children.frames import pack, receive
from holdfast.jobs.worker.isolation.attempts import Attempts
from holdfast.jobs.worker.isolation.messages import dump_claim
ours, theirs = socket.socketpair()
ours.sendall(pack(FrameKind.REQUEST, dump_claim(claim(arguments="null"))))
ours.shutdown(socket.SHUT_WR)
Attempts(theirs, lambda: None).serve(isolated.fork.kind, ChildLimits())
theirs.close()
receive(ours)
print(receive(ours)[1] == str(os.getpid()), receive(ours), os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "True None 70\n", done.stderr
