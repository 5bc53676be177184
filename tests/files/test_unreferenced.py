"""Files that no row names are deleted, and those that a row names or may soon name are not."""

import asyncio

from holdfast.files import ArtifactStore, delete_unreferenced


def test_files_without_a_row_are_deleted_unless_their_draft_is_open(tmp_path):
    files = ArtifactStore(tmp_path)
    files.prepare()
    for name in ("sound/named", "sound/left", "image/left"):
        with files.draft() as draft:
            draft.publish(name)

    async def is_referenced(name):
        return name == "named"

    async def delete():
        return await delete_unreferenced(files, "sound", is_referenced)

    with files.draft() as draft:
        draft.publish("sound/held")
        assert asyncio.run(delete()) == 1
    assert {each.name for each in files.list("sound")} == {"sound/named", "sound/held"}
    assert asyncio.run(delete()) == 1
    assert [each.name for each in files.list("image")] == ["image/left"]
