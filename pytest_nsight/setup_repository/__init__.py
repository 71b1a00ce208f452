"""The command `pytest-nsight init`: writes a first perf test, settings and workflows into a user's repository.

Runs in a process of its own.
"""
