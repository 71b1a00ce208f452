"""Measures cases: the inner pytest with its fixture, rounds, pacing, ranges and canaries.

Runs in each worker process.
"""
