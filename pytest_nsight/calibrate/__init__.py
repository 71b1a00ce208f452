"""What unchanged code does: the noise of a machine, and the false alarms of this gate and of simpler rules on it.

pool of runs -> random splits into stored and new runs -> the live gate's own functions -> rates -> report
"""
