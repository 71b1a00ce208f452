"""From a Trace to launches per round and one summary per run: pure functions over columns.

Runs in the controller process.
"""
