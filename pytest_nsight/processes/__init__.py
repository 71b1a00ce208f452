"""Other processes and the files that they leave: starts and ends them, owns folders, reads no more than fits.

Runs in the controller process and in those of the commands; the watchdog is a process of its own. What GPUs and CPU
there are is asked in the worker process, too.
"""
