"""The commands of pytest-nsight that run tests or read sessions, and what bisect measures and finds.

Runs in the controller process.
"""
