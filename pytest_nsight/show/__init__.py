"""The command `pytest-nsight show`: what a recording holds, as text.

Runs in a process of its own.
"""

from pytest_nsight.show.page import show

__all__ = ["show"]
