"""torch.profiler inside the measuring process, and the JSON that it writes.

Runs in the worker process.
"""
