"""Many similar whole numbers as a short text: durations of rounds, above all.

`pack` writes the median, and how far each number lies from it in exponential Golomb codes of order k (Teuhola 1978;
video codecs such as H.264 use them): a small distance takes few bits, an outlier takes twice its length. Sizes
measured on real baselines, and the alternatives, are in docs/decisions/0019.

`100x2144` is 100 times 2144; `100x2144+32k1:SGVsbG8` is 100 numbers, 2144 plus multiples of 32, whose codes of
order 1 follow in base64; without `+32` they are 2144 plus any number.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Sequence

from pytest_nsight.model.json_text import shown

_FORM = re.compile(r"(\d{1,9})x(\d{1,19})(?:(?:\+(\d{1,19}))?k(\d{1,2}):([A-Za-z0-9+/]*))?", re.ASCII)
_LARGEST = 2**63 - 1


class PackingError(ValueError):
    """A text that `pack` does not write."""


def pack(numbers: Sequence[int]) -> str:
    """The numbers as a text of ASCII letters, digits and `+/:`.

    Args:
        numbers: whole numbers from 0 to 2**63 - 1, in any order, none or more.
    """
    if not numbers:
        return "0x0"
    median = sorted(numbers)[len(numbers) // 2]
    head = f"{len(numbers)}x{median}"
    unit = math.gcd(*(number - median for number in numbers))
    if not unit:
        return head
    distances = [(number - median) // unit for number in numbers]
    # Even codes stand for distances upwards, odd ones for those downwards.
    codes = [2 * distance if distance >= 0 else -2 * distance - 1 for distance in distances]
    # The best order is near the length of a typical code; a wider search won nothing on recorded rounds.
    typical = sorted(codes)[len(codes) // 2].bit_length()
    order = min(range(max(0, typical - 1), typical + 2), key=lambda k: _length(codes, k))
    bits = "".join([f"{code:0{2 * code.bit_length() - order - 1}b}" for code in _shift(codes, order)])
    bits += "0" * (-len(bits) % 8)
    content = int(bits, 2).to_bytes(len(bits) // 8, "big")
    head += f"+{unit}" if unit > 1 else ""
    return f"{head}k{order}:{base64.b64encode(content).decode().rstrip('=')}"


def unpack(text: str, most: int) -> tuple[int, ...]:
    """The numbers in a text that `pack` wrote.

    Args:
        text: what `pack` returned.
        most: how many numbers are the most that is accepted.

    Raises:
        PackingError: the text has another form, claims more numbers, or holds one beyond 0 to 2**63 - 1.
    """
    form = _FORM.fullmatch(text)
    if form is None:
        raise PackingError(f"is {shown(text)}, expected the form 100x2144+32k1:SGVsbG8")
    count, median = int(form[1]), int(form[2])
    if count > most:
        raise PackingError(f"holds {count} numbers, and {most} is the most that is read")
    if form[4] is None:
        numbers = (median,) * count
    else:
        unit, order = int(form[3] or 1), int(form[4])
        numbers = tuple(median + unit * distance for distance in _decode_all(form[5], count, order))
    if numbers and not (min(numbers) >= 0 and max(numbers) <= _LARGEST):
        raise PackingError(f"holds {min(numbers)} to {max(numbers)}, expected 0 to 2**63 - 1")
    return numbers


def _length(codes: Sequence[int], order: int) -> int:
    """Bits that the codes take, a number that all orders share left out."""
    return 2 * sum(map(int.bit_length, _shift(codes, order))) - len(codes) * order


def _shift(codes: Sequence[int], order: int) -> list[int]:
    """The codes plus 2**order: before each stand as many zeros as it has bits beyond the last `order` + 1."""
    return [code + (1 << order) for code in codes]


def _decode_all(text: str, count: int, order: int) -> list[int]:
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise PackingError("has a part that is not base64") from None
    # The one in front keeps the zeros with which the codes begin.
    bits = bin(int.from_bytes(b"\1" + content, "big"))[3:]
    numbers: list[int] = []
    start, offset = 0, 1 << order
    for _ in range(count):
        first = bits.find("1", start)
        end = 2 * first - start + order + 1
        if first < 0 or end > len(bits):
            raise PackingError(f"ends after {len(numbers)} of {count} numbers")
        code = int(bits[first:end], 2) - offset
        numbers.append(-(code + 1) // 2 if code & 1 else code // 2)
        start = end
    if len(bits) - start >= 8 or "1" in bits[start:]:
        raise PackingError(f"goes on after {count} numbers")
    return numbers
