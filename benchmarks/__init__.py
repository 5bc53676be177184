"""Holdfast beside its peers, in one run: `make bench`. Only ratios within one run mean anything."""
