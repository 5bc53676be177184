"""Hold the durable engine to its promises while processes die, stop and lose their store.

`python -m campaigns` runs them all; `docs/explanation/proof.md` says what they prove and what not.
Everything here is started by a campaign, speaks over the loopback only and ends with it.
"""
