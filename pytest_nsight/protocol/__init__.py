"""What passes between the controller process and a worker process, all of it.

Mark, job, assignment, manifest, parent pipe, plans and file names. Used in both processes.
"""
