"""Scrubbed exports that stay in a run's folder, so that a session can be judged again."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

from pytest_nsight.collect.nsys.read import explain_emptiness, read
from pytest_nsight.collect.nsys.scrub import unpack
from pytest_nsight.trace.model import Trace

KEPT_FILE = "trace.sqlite"
PACKED_FILE = "trace.sqlite.xz"


def read_explained(path: Path) -> Trace:
    """Reads an export; one without ranges or without kernels says in its notes what may be the matter.

    Raises:
        TraceError: it cannot be read.
    """
    trace = read(path)
    explanation = explain_emptiness(trace)
    return dataclasses.replace(trace, notes=(*trace.notes, explanation)) if explanation else trace


def read_kept(folder: Path) -> Trace | None:
    """Reads the scrubbed export in a run's folder, packed or not; None if there is none.

    Raises:
        TraceError: it cannot be read.
    """
    kept, packed = folder / KEPT_FILE, folder / PACKED_FILE
    if kept.exists():
        return read_explained(kept)
    if not packed.exists():
        return None
    with tempfile.TemporaryDirectory() as scratch:
        unpack(packed, Path(scratch, KEPT_FILE))
        return read_explained(Path(scratch, KEPT_FILE))
