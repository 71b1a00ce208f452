"""The forms in which a finished session is shown: pure functions from a SessionResult to text.

Runs in the controller process.
"""
