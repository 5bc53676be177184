"""How often maintenance does its tasks: what cannot work is refused by name."""

import pytest

from holdfast.jobs.maintenance.options import MaintenanceOptions


@pytest.mark.parametrize("field", MaintenanceOptions.__slots__)
def test_intervals_of_maintenance_are_above_zero(field):
    with pytest.raises(ValueError, match=field):
        MaintenanceOptions(**{field: 0})
