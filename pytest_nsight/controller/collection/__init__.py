"""What pytest collected: which tests are measured, divided or left out, and what a session may have missed.

Runs in the controller process.
"""
