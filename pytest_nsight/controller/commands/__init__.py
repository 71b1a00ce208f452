"""The command line of `pytest-nsight`: the table of all commands, their arguments, and what some of them do.

`show`, `compare`, `history`, `calibrate` and `init` have folders of their own; so has the search of `bisect`. Each
command runs in a process of its own, and a pytest that it starts runs in that process as the controller.
"""
