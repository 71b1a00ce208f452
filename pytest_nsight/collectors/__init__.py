"""Each collector starts a worker under a profiler and returns a Trace.

Runs in the controller process; a recorder runs in the worker process.
"""
