"""The command `pytest-nsight show`: what a recording spends its time on, as text, JSON or CSV.

Runs in a process of its own.
"""
