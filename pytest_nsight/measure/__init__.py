"""Measuring in the worker: rounds, pacing, device, ranges."""
