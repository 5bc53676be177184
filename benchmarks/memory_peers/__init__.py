"""Peers that are run by their own commands, in processes of their own: one module each."""
