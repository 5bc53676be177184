"""Stores: the ports of `holdfast.jobs.ports` on real databases, one package a dialect."""
