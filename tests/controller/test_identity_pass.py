"""How the cases of an identity pass are shared out to processes."""

from __future__ import annotations

import pytest

from pytest_nsight.controller.identity_pass import share_out


def cases(number: int) -> list[str]:
    return [f"t.py::{place}" for place in range(number)]


@pytest.mark.parametrize(
    ("number", "processors", "shares"),
    [(78, 16, 8), (78, 2, 1), (78, 8, 4), (78, 128, 8), (16, 16, 2), (15, 16, 1), (1, 16, 1)],
)
def test_each_process_has_enough_to_do_and_processors_to_do_it_with(
    number: int, processors: int, shares: int
) -> None:
    found = share_out(cases(number), processors)

    assert len(found) == shares
    assert sorted(case for share in found for case in share) == sorted(cases(number))
    assert max(map(len, found)) - min(map(len, found)) <= 1
