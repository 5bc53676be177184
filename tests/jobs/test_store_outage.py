"""An outage is reported once when it begins and once when it ends."""

from tests.support.workers import EventLog

from holdfast.jobs.job_events import StoreBack, StoreLost
from holdfast.jobs.store_outage import Outage
from holdfast.testing import VirtualClock


def test_it_begins_with_the_first_part_and_ends_with_the_last():
    clock, log = VirtualClock(), EventLog()
    outage = Outage("w", clock, [log])
    outage.back("tick")
    assert log.events == []
    outage.lost("tick", OSError("gone"))
    outage.lost("heartbeat", OSError("gone"))
    outage.lost("tick", OSError("gone"))
    assert log.events == [StoreLost("w", "gone")]
    assert outage.lasts
    clock.advance(7)
    outage.back("tick")
    outage.back("tick")
    assert outage.lasts
    outage.back("heartbeat")
    assert log.events[1:] == [StoreBack("w", 7.0)]
    assert not outage.lasts
