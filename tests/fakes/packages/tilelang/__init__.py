"""Stands in for tilelang: its profiler and its autotuner, which work on a GPU only."""
