"""Collectors: each records a worker and returns a Trace."""
