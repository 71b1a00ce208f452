"""The collector through torch.profiler, and the readers of its events.

Runs in the controller process.
"""
