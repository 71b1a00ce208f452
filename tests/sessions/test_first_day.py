"""What a new user meets first: a wrong call, lines at 80 columns, a collector that cannot measure here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.collectors.base import RecordingOptions
from pytest_nsight.collectors.lookup import choose
from pytest_nsight.controller.session import NsightSession
from pytest_nsight.controller.settings import Settings
from pytest_nsight.model.errors import CollectorError
from tests.collectors.real import require_nsys

pytestmark = pytest.mark.slow

Gate = Callable[..., pytest.RunResult]

WRONG = """
@pytest.mark.nsight
def test_wrong(nsight):
    nsight(square(torch.ones(3)))
"""
ONE = "@pytest.mark.nsight\ndef test_one(nsight):\n    nsight(square, torch.ones(64, 64))\n"


@pytest.mark.parametrize("is_measured", [True, False])
def test_a_wrong_call_is_shown_at_the_users_line_alone(gate: Gate, *, is_measured: bool) -> None:
    result = gate(body=WRONG, nsight=is_measured)

    text = result.stdout.str()
    assert "nsight(square(torch.ones(3)))" in text
    assert "pass the function and its arguments apart" in " ".join(text.split())
    assert "fixture.py" not in text
    assert "self._measurement" not in text


def test_the_head_of_the_output_fits_80_columns(gate: Gate, pytester: pytest.Pytester) -> None:
    result = gate("--nsight-runs=1", body=ONE)

    head = result.stdout.str().partition("nsight: collector torch")[2].partition("collected ")[0]
    assert "nsight: operators run on 1 thread" in head
    assert "baselines" in head
    # A path is not cut into pieces.
    assert all(len(line) <= 80 for line in head.splitlines()[1:] if str(pytester.path) not in line)


def test_nsys_without_a_gpu_is_announced_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    require_nsys()
    for names, said in (((), "nsys records no kernels"), (("NVIDIA H200",), "")):
        monkeypatch.setattr("pytest_nsight.collectors.lookup.gpu_names", lambda names=names: names)

        _, notes = choose("nsys", RecordingOptions(), strict=False)

        assert said in " ".join(notes)
        assert bool(notes) == bool(said)


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        (
            {"recording": RecordingOptions(gpu_metrics=True)},
            "--nsight-gpu-metrics needs Nsight Systems, which the collector torch does without; ",
        ),
        ({"drill": True}, "--nsight-drill reads counters of GPU kernels, and there is no CUDA device here; leave "),
    ],
)
def test_counters_without_a_gpu_are_refused_or_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], refusal: str
) -> None:
    monkeypatch.setattr("pytest_nsight.collectors.lookup.gpu_names", lambda: ())
    monkeypatch.setattr("pytest_nsight.controller.live_runs.gpus", lambda: ())

    def begin(**settings: Any) -> list[str]:
        return NsightSession(Settings(tmp_path, **asked, **settings), (), tmp_path).header()

    with pytest.raises(CollectorError, match=refusal):
        begin(collector="torch")
    with pytest.raises(CollectorError, match="--nsight-strict refuses a fallback"):
        begin(strict=True)
    assert refusal.split(maxsplit=1)[0] in " ".join(begin())
