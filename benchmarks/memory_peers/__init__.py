"""Peers that are run by their own commands, one module each."""
