"""Worker processes: their start, their turns and GPUs, their progress and limits, and how they ended.

Runs in the controller process.
"""
