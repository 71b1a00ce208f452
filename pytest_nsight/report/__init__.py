"""How a finished session is shown: one module for each form, all of them pure.

Runs in the controller process.
"""
