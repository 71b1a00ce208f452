"""The user's pytest under --nsight: settings, session, scheduling, worker processes, outcomes.

Runs in the controller process.
"""
