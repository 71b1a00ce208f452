"""From runs to verdicts: pure arithmetic over values, no files, no pytest.

Runs in the controller process, and in a replay.
"""
