"""Nsight Compute: hardware counters of single kernels, for the drill-down after a verdict.

Starts ncu from the controller's process, around a worker process. No other folder knows ncu.
"""
