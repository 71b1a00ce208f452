"""The NVTX ranges by which Nsight Systems' record shows the rounds.

Runs in the worker process; the doctor's trial run emits one, too.
"""
