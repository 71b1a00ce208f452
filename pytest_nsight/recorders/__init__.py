"""What records inside the measuring process: marks the rounds, writes records, says what launches are.

Runs in the worker process. What starts a worker and reads its records is in `collectors/`.
"""
