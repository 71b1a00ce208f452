"""The collector through Nsight Systems: it starts nsys, exports its reports and reads them.

Runs in the controller process.
"""
