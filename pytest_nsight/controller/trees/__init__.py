"""Trees of the tested code: revisions of git, and the evidence that a session belongs to a tree.

Runs in the controller process.
"""
