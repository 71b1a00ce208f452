"""Values that flow between the stages, with their units and errors: no files, no processes, no pytest.

Used in every process.
"""
