"""What a killed nsys leaves in shared memory keeps no other from starting."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.session_segment import SHARED_MEMORY, remove_half_made
from tests.collectors.real import require_nsys, run

pytestmark = pytest.mark.xdist_group("nsys")

BEGUN, MADE, CORRUPTED = 1, 2, 3


def write_segment(folder: Path, word: int | None, age_s: float = 60) -> Path:
    """A segment as Boost.Interprocess lays it out, as far as its first word; without a size for None."""
    path = folder / "NSys-2022.4.2.1"
    path.write_bytes(b"" if word is None else word.to_bytes(8, "little") + bytes(179480))
    changed = time.time() - age_s
    os.utime(path, (changed, changed))
    return path


def test_a_segment_that_nobody_will_finish_is_removed(tmp_path):
    segment = write_segment(tmp_path, BEGUN)

    assert remove_half_made(tmp_path) == (segment,)
    assert not segment.exists()


@pytest.mark.parametrize(
    ("word", "age_s"),
    [(BEGUN, 0), (MADE, 60), (CORRUPTED, 60), (0, 60), (None, 60)],
    ids=["being made", "made", "corrupted", "of an unknown layout", "empty"],
)
def test_a_segment_that_somebody_may_use_stays(tmp_path, word, age_s):
    segment = write_segment(tmp_path, word, age_s)

    assert remove_half_made(tmp_path) == ()
    assert segment.exists()


def test_other_shared_memory_stays_and_none_is_no_error(tmp_path):
    (tmp_path / "quadd-agent-instance-1").write_bytes(bytes(4096))
    (tmp_path / "NSys-folder").mkdir()
    os.mkfifo(tmp_path / "NSys-pipe")

    assert remove_half_made(tmp_path) == ()
    assert remove_half_made(tmp_path / "missing") == ()
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.slow
def test_nsys_starts_after_one_that_was_killed_as_it_made_the_segment(tmp_path):
    """nsys itself waits for such a segment for ever, and says "Agent launcher failed"."""
    installation = require_nsys()
    segment = write_segment(SHARED_MEMORY, BEGUN)
    segment = segment.rename(SHARED_MEMORY / f"NSys-{'.'.join(map(str, installation.version))}")
    try:
        assert run(installation, tmp_path, "pass") == 0, (tmp_path / "r.log").read_text()
    finally:
        segment.unlink(missing_ok=True)
