"""What the machine code of a kernel says: its hash, its loops, and which bytes of its arguments it reads.

Runs in the worker process. Pure but for the call of nvdisasm.
"""
