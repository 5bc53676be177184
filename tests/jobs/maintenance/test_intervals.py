"""Intervals of maintenance: invalid ones are refused by name."""

import pytest

from holdfast.jobs.maintenance.intervals import MaintenanceOptions


@pytest.mark.parametrize("field", MaintenanceOptions.__slots__)
def test_intervals_of_maintenance_are_above_zero(field):
    with pytest.raises(ValueError, match=field):
        MaintenanceOptions(**{field: 0})
