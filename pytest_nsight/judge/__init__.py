"""From runs to verdicts: pure arithmetic over values, no files, no processes, no pytest.

evidence -> reference (the stored runs that count) -> locations -> noise -> contrast -> verdict -> sentence
"""
