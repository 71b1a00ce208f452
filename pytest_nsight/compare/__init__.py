"""The command `pytest-nsight compare A B`: two sessions, baseline files or traces side by side.

Runs in a process of its own.
"""
