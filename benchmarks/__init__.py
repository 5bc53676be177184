"""Holdfast and its peers, measured in one run: `make bench`. Compare only ratios within one run."""
