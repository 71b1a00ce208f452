"""What makes the fused RMSNorm worse leaves its result right: only the gate may notice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from kernels import rms_norm as operator
from tests.spoiled import spoil

SOUND = operator.rms_norm["fused"]


@pytest.fixture(autouse=True)
def _sound_afterwards(pytestconfig: pytest.Config) -> Iterator[None]:
    yield
    spoil.pytest_unconfigure(pytestconfig)


@pytest.mark.parametrize("kind", ["slow", "unfused"])
def test_the_result_stays_right(kind: str, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    monkeypatch.setenv("NSIGHT_SPOIL", kind)
    spoil.pytest_configure(pytestconfig)
    x, weight = torch.randn(128, 32), torch.randn(32)

    assert operator.rms_norm["fused"] is not SOUND
    for _ in range(2):
        out = operator.rms_norm["fused"](x, weight)
        torch.testing.assert_close(out, operator.rms_norm_reference(x, weight))


def test_other_inputs_of_the_same_shape_are_not_mistaken_for_the_last_ones() -> None:
    weight = torch.ones(8)
    for _ in range(3):
        x = torch.randn(40, 8)
        out = spoil.compute_slow_on_cpu(x, weight, 1e-5, percent=5)
        torch.testing.assert_close(out, operator.rms_norm_reference(x, weight))


def test_slow_on_the_cpu_works_on_more_rows_by_the_same_operators() -> None:
    x, weight = torch.randn(100, 16), torch.ones(16)
    spoil.compute_slow_on_cpu(x, weight, 1e-5, percent=5)

    def slow(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return spoil.compute_slow_on_cpu(x, weight, 1e-5, percent=5)

    seen = []
    for compute in (SOUND, slow):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as p:
            compute(x, weight)
        seen.append([(event.name, event.input_shapes[:1]) for event in p.events()])

    assert [name for name, _ in seen[0]] == [name for name, _ in seen[1]]
    assert ("aten::rms_norm", [[100, 16]]) in seen[0]
    assert ("aten::rms_norm", [[105, 16]]) in seen[1]


def test_none_spoils_nothing(monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    monkeypatch.setenv("NSIGHT_SPOIL", "none")

    spoil.pytest_configure(pytestconfig)

    assert operator.rms_norm["fused"] is SOUND


def test_the_slow_kernel_bears_the_name_of_the_sound_one() -> None:
    pytest.importorskip("triton")

    assert spoil._rms_norm_fused_kernel.__name__ == operator._rms_norm_fused_kernel.__name__


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("NSIGHT_SPOIL", "fast", "NSIGHT_SPOIL is 'fast', one of none, slow, unfused is needed"),
        ("NSIGHT_SPOIL_PERCENT", "0", "NSIGHT_SPOIL_PERCENT is 0, more than 0 and at most 100 is needed"),
    ],
)
def test_a_wrong_setting_is_named(
    variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(pytest.UsageError, match=message):
        spoil.pytest_configure(pytestconfig)
