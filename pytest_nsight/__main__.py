"""`python -m pytest_nsight` is `pytest-nsight` with the current folder on sys.path, as in `python -m pytest`."""

from __future__ import annotations

import sys

from pytest_nsight.cli import main

if __name__ == "__main__":
    sys.exit(main())
