"""The collector through Nsight Systems: it starts nsys, exports its reports and reads them.

The collector runs in the controller process, the emitter of ranges in the worker process.
"""
