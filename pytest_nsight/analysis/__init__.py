"""What a trace spends its time on, and why: pure arithmetic over the columns of a Trace, without pandas and scipy.

Runs in the process of the command or script that asks, never in a measuring one.
"""
