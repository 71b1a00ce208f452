"""What the launches of a case are: their machine code, shapes and arguments, seen from inside the process.

Runs in the worker process.
"""
