"""The abuse campaign in its short form, and that it notices what it is there to find."""

import os
import socket
import time

import pytest
from campaigns import abuse
from campaigns.hostile_clients import HostileRequest, RawClient
from campaigns.plan import CampaignOutcome, Plan


@pytest.mark.timeout(400)
def test_hostile_files_gateways_and_clients_harm_no_other_user(tmp_path):
    outcome = abuse.run(Plan("abuse", "sqlite", 3, False, tmp_path))

    assert (outcome.findings, outcome.skipped) == ([], "")
    assert outcome.figures["cases"] >= 60
    assert outcome.figures["gateway_others_served"] >= 1
    assert outcome.figures["service_others_served"] >= 1


@pytest.mark.parametrize("most, found", [(1 << 20, 1), (1 << 40, 0)])
def test_a_process_beyond_its_memory_is_found(most, found):
    outcome = CampaignOutcome()
    with abuse.MemoryWatch(outcome, "this", [os.getpid()], most):
        pass

    assert len(outcome.findings) == found
    assert outcome.figures["this_mebibytes"] > 1


def test_a_process_that_is_gone_uses_no_memory():
    assert abuse.memory_of(2**22 + 1, "VmHWM") == 0


def refuse():
    raise ConnectionError("refused")


@pytest.mark.parametrize(
    "served, finding",
    [(lambda: False, "was not served"), (refuse, "got ConnectionError('refused')")],
)
def test_another_user_who_is_not_served_is_found(served, finding):
    outcome = CampaignOutcome()
    with abuse.bystander(outcome, "a server", served):
        end = time.monotonic() + 30
        while not outcome.findings and time.monotonic() < end:
            time.sleep(0.05)

    assert finding in outcome.findings[0]


@pytest.mark.parametrize(
    "answer, status",
    [(b"HTTP/1.1 503 Busy\r\n\r\n", 503), (b"", None), (b"nothing of the kind", None)],
)
def test_a_raw_client_reads_the_status(answer, status):
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = RawClient(server.getsockname()[1])
        connection, _ = server.accept()
        with connection:
            client.send(HostileRequest("a request", (b"GET", b" /")))
            assert connection.recv(3, socket.MSG_WAITALL) == b"GET"
            connection.sendall(answer)
            connection.shutdown(socket.SHUT_WR)
            assert client.status() == status
        client.close()
