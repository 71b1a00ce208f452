"""Makes hostile files of sound ones: JSON with other values in some places, and bytes changed, cut or doubled."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, -0.0, 1e308, float("inf"), float("nan"), 2**31, 2**53 + 1, 2**63, -(2**63),
    10**400, "", "x", "7", "\ud800", "\x1b[31m", "\n::stop-commands::", "\u202e", "a" * 10_000, [], {}, [[]],
    [None], [1, 2, 3], {"": None}, {"\udcff": {}}, [0] * 1000,
)  # fmt: skip


def places(value: object) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        entries = list(inner.items()) if isinstance(inner, dict) else []
        entries += list(enumerate(inner)) if isinstance(inner, list) else []
        found += [(inner, key) for key, _ in entries]
        waiting += [entry for _, entry in entries]
    return found


def spoil_json(document: object, choose: random.Random, changes: int = 3, hostile: Sequence[Any] = HOSTILE) -> Any:
    """A copy with some of its values replaced by hostile ones, removed, copied, renamed or moved."""
    spoiled: Any = copy.deepcopy(document)
    for _ in range(choose.randint(1, changes)):
        found = places(spoiled)
        if not found:
            return choose.choice(hostile)
        container, key = choose.choice(found)
        other, other_key = choose.choice(found)
        action = choose.randrange(6)
        if action == 0:
            del container[key]
        elif action == 1 and isinstance(container, list):
            container.insert(key, copy.deepcopy(other[other_key]))
        elif action == 2 and isinstance(container, dict):
            container[choose.choice(["", "x", "event", "format", "\udcff", "__class__"])] = container.get(key)
        elif action == 3 and other_key in (other if isinstance(other, dict) else range(len(other))):
            container[key] = copy.deepcopy(other[other_key])
        else:
            container[key] = copy.deepcopy(choose.choice(hostile))
    return spoiled


def spoil_bytes(data: bytes, choose: random.Random) -> bytes:
    """The data with some bytes changed, cut or doubled."""
    spoiled = bytearray(data)
    for _ in range(choose.randint(1, 4)):
        at = choose.randrange(len(spoiled) + 1)
        spoiled[at : at + choose.choice((0, 1, 8, 1000))] = choose.choice(
            (choose.randbytes(4), b"", bytes(spoiled[:at]), b"[" * 2000, b"\x00", b'"', b"9" * 50)
        )
    return bytes(spoiled[: 1 << 20])
