"""All faults, by subject."""

from __future__ import annotations

from tests.faults import (
    dying_workers,
    hangs,
    killed_sessions,
    plugins,
    recordings,
    revisions,
    rights_and_secrets,
    stored_files,
    text,
)
from tests.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    *hangs.FAULTS,
    *stored_files.FAULTS,
    *recordings.FAULTS,
    *killed_sessions.FAULTS,
    *dying_workers.FAULTS,
    *rights_and_secrets.FAULTS,
    *text.FAULTS,
    *plugins.FAULTS,
    *revisions.FAULTS,
)
