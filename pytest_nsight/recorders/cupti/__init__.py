"""CUPTI inside the measuring process: its library, and its records of what the device does.

Runs in the worker process; the controller tries the library in a process of its own.
"""
