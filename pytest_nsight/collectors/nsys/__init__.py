"""Everything that knows Nsight Systems.

Runs in the controller process.
"""
