"""`pytest-nsight show`: what a recording holds, as text."""

from pytest_nsight.show.page import show

__all__ = ["show"]
