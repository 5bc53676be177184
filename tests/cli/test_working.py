"""How the commands that run jobs work, from the settings."""

import pytest

from holdfast.cli.working import worker_options
from holdfast.jobs.options import MaintenanceOptions
from holdfast.settings import Environment, Settings


def options(concurrency=None, **settings):
    return worker_options(Settings.load(Environment(settings)), concurrency)


def test_leases_and_concurrency_are_the_settings():
    found = options(LEASE_MS="8000", LEASE_EXTEND_MS="2000", WORKER_CONCURRENCY="3")

    assert (found.lease_seconds, found.extend_every, found.concurrency) == (8, 2, 3)
    assert options(7, WORKER_CONCURRENCY="3").concurrency == 7


@pytest.mark.parametrize("lease, lead, rescue", [("1000", 1, 0.5), ("8000", 8, 4)])
def test_a_dead_leader_is_waited_for_no_longer_than_a_dead_workers_jobs(lease, lead, rescue):
    chores = options(LEASE_MS=lease).maintenance

    assert (chores.lead_seconds, chores.rescue_every) == (lead, rescue)


def test_long_leases_leave_the_chores_as_they_are():
    assert options().maintenance == MaintenanceOptions()
