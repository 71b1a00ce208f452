"""Measures cases: a pytest of its own with its fixture, rounds, pacing, ranges and canaries.

Runs in each worker process.
"""
