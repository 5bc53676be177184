"""Stores: the ports of `holdfast.jobs.store_port` on real databases, one package per dialect."""
