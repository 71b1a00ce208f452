"""The collector through torch.profiler.

The recorder runs in the worker process, the reader in the controller process..
"""
