"""Facts about API keys."""

from dataclasses import replace

from holdfast.jobs.key_port import ApiKey
from holdfast.jobs.store_port import ConstraintViolated
from holdfast.testing.conformance.world import World, fact, refusal


def _key(world: World, key_id: str, **fields: str) -> ApiKey:
    parts = {"hint": "hf_ab", "name": "laptop", "owner": "ann", "organisation": "acme", **fields}
    return ApiKey(key_id, created_at=world.now, **parts)  # type: ignore[arg-type]  # all texts


@fact
async def a_key_is_found_by_its_hash_from_every_handle(world: World) -> None:
    key = _key(world, "k1", name="Ann's “laptop”")
    await world.store.add_key(key, "hash-1")
    await world.store.add_key(_key(world, "k2", owner="ben"), "hash-2")
    second = await world.open_second()
    for store in (world.store, second):
        assert await store.find_key("hash-1") == key
        assert await store.find_key("HASH-1") is await store.find_key("") is None


@fact
async def a_revoked_key_is_listed_but_not_found(world: World) -> None:
    first, second = _key(world, "k1"), _key(world, "k2")
    await world.store.add_key(first, "hash-1")
    await world.store.add_key(second, "hash-2")
    other = await world.open_second()
    assert await other.revoke_key("k1", now=world.now + 5)
    assert await world.store.find_key("hash-1") is None
    assert await world.store.find_key("hash-2") == second
    revoked = replace(first, revoked_at=world.now + 5)
    assert await world.store.keys() == (revoked, second)


@fact
async def revoking_again_keeps_the_time_and_an_unknown_key_is_none(world: World) -> None:
    await world.store.add_key(_key(world, "k1"), "hash-1")
    assert await world.store.revoke_key("k1", now=world.now + 5)
    assert await world.store.revoke_key("k1", now=world.now + 9)
    assert [key.revoked_at for key in await world.store.keys()] == [world.now + 5]
    assert not await world.store.revoke_key("k9", now=world.now)


@fact
async def two_keys_have_neither_one_id_nor_one_hash(world: World) -> None:
    await world.store.add_key(_key(world, "k1"), "hash-1")
    for key_id, secret_hash in (("k1", "hash-2"), ("k2", "hash-1")):
        with refusal("a key that exists", kind=ConstraintViolated):
            await world.store.add_key(_key(world, key_id), secret_hash)
    assert len(await world.store.keys()) == 1
