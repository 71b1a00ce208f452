"""The command `pytest-nsight history`: a case over the commits that measured it, and where its time changed.

Runs in a process of its own.
"""
