"""Grids of runs: the paper's experiments and sweeps of your own, with a report."""
