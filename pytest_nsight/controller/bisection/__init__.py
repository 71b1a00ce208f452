"""The search of `pytest-nsight bisect`: the commits on the line, their measuring in worktrees, the first bad one.

Runs in the controller process: in the pytest that the command starts, in place of the gate's session.
"""
