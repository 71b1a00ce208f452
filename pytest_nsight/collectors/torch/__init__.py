"""The collector through torch.profiler.

The recorder runs in the worker process, the collector and the readers in the controller process.
"""
