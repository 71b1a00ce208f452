"""Stands in for matplotlib, which a report of Triton imports to draw what nobody looks at."""
