"""Stored runs: their file format, the folder that holds them, and which of them may be compared.

Runs in the controller process.
"""
