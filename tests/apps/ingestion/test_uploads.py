"""The uploaded files of documents: gone for good, or not readable now."""

import pytest

from holdfast import Permanent
from holdfast.files import ArtifactStore
from holdfast_ingestion.uploads import StorageError, read_upload, upload_name


@pytest.fixture
def files(tmp_path):
    store = ArtifactStore(tmp_path)
    store.prepare()
    return store


def test_a_file_that_is_gone_is_not_tried_again(files):
    with pytest.raises(Permanent, match="upload it again") as refused:
        read_upload(files, "d1")
    assert refused.value.code == "EXPIRED"


def test_a_file_that_cannot_be_read_is_tried_again(files, tmp_path):
    (tmp_path / upload_name("d1")).mkdir(parents=True)
    with pytest.raises(StorageError):
        read_upload(files, "d1")
