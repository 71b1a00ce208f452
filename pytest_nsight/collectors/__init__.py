"""Each collector starts a worker under a profiler and returns a Trace.

Runs in the controller process; a worker finds its recorder by `lookup.py`. The recorders are in `recorders/`.
"""
