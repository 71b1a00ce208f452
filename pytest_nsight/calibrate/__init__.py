"""The command `pytest-nsight calibrate`: the noise of a machine and the gate's error rates on it.

Runs in a process of its own.
"""
