import dataclasses
import pickle

import pytest

from holdfast.errors import Category, ErrorCode
from holdfast.resilience.diagnosis import UNRECOGNISED, Diagnosis, permanent, transient


@pytest.mark.parametrize("code", ErrorCode)
def test_a_permanent_diagnosis_never_counts(code):
    found = permanent(code)
    assert (found.category, found.counts) == (Category.PERMANENT, False)


@pytest.mark.parametrize("code", ErrorCode)
def test_rejections_of_ours_do_not_count(code):
    ours = "CIRCUIT_OPEN RATE_LIMITED LEASE_LOST CANCELLED UNWANTED_RESULT ARGUMENTS_MISMATCH"
    assert transient(code).counts is (code not in ours.split())


@pytest.mark.parametrize(
    ("status", "counts"), [(399, True), (400, False), (408, False), (499, False), (500, True)]
)
def test_a_4xx_does_not_count(status, counts):
    assert transient(ErrorCode.GW_TIMEOUT, status=status).counts is counts


def test_the_default_is_transient_counts_and_is_not_known():
    assert (
        Diagnosis(Category.TRANSIENT, ErrorCode.UNKNOWN, known=False, counts=True) == UNRECOGNISED
    )


def test_a_diagnosis_cannot_be_changed_and_can_be_sent_elsewhere():
    with pytest.raises(dataclasses.FrozenInstanceError):
        UNRECOGNISED.known = True  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(UNRECOGNISED)) == UNRECOGNISED
