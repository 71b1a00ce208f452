"""What a test says of its work: `nsight.work(bytes=, flops=)` and the mark's arguments of the same names."""

from __future__ import annotations

import contextlib
import operator

from pytest_nsight.model import Work

_MOST = 2**63 - 1


def read_work(where: str, moved: object, flops: object) -> Work:
    """The declared work of a round; what is None counts as nothing.

    Args:
        where: who says it, for the message: "nsight.work".
        moved: bytes read and written.
        flops: floating-point operations.

    Raises:
        ValueError: neither is given, or not by a number of at least 0; one sentence says which.
    """
    if moved is None and flops is None:
        raise ValueError(f"{where}() says nothing: give bytes=, flops= or both")
    return Work(
        bytes_moved=0 if moved is None else read_amount(f"{where}(bytes=...)", moved),
        flops=0 if flops is None else read_amount(f"{where}(flops=...)", flops),
    )


def read_amount(where: str, value: object) -> int:
    """A whole number from whatever counts as one: an int, numpy's, or a float such as 1e9, rounded.

    Raises:
        ValueError: no number of at least 0, or one beyond 2^63.
    """
    amount: float = -1
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError):
            amount = value if isinstance(value, float) else operator.index(value)  # type: ignore[arg-type]
    # Also false for NaN.
    if not 0 <= amount <= _MOST:
        raise ValueError(f"{where} is {value!r}; give a number of at least 0, such as 2 * x.nbytes")
    return round(amount)
