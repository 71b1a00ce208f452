"""The collector through CUPTI: finds a library that works, and reads what the recorder in the worker wrote.

Runs in the controller process.
"""
