"""Room and rights for a session's own files."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

Gate = Callable[..., pytest.RunResult]

BODY = """
@pytest.mark.nsight
def test_op(nsight):
    nsight(square, torch.ones(8, 8))
"""


@pytest.fixture
def small_disk(pytester: pytest.Pytester) -> Iterator[Path]:
    folder = pytester.mkdir(".nsight")
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a tmpfs here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_told_before_measuring(gate: Gate, small_disk: Path) -> None:
    result = gate(body=BODY)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *.nsight/* has 0.1 MB free and a run may need 16 MB: make room there"])


def test_a_folder_that_cannot_be_made_is_told(gate: Gate, pytester: pytest.Pytester) -> None:
    pytester.path.joinpath(".nsight").write_text("in the way")

    result = gate(body=BODY)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *run-001 cannot be written (Not a directory)*"])
