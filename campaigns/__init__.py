"""Fault injection campaigns for the durable job engine.

`python -m campaigns` runs all of them; `docs/explanation/proof.md` says what they show, and what
they cannot. A campaign starts its own servers and processes, on loopback only, and ends them.
"""
