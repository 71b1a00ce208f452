"""The gate's loop over frozen values: what to measure next, what a record adds, which verdicts follow.

Runs in the controller's process, and wherever recorded runs are judged again.
"""
