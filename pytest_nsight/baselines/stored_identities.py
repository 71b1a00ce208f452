"""Identities in a baseline file: each launch once, under a key, and identities as keys in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pytest_nsight.model.decoding import Bounds, Count
from pytest_nsight.model.identity import Identity, LaunchIdentity, MachineCode, shorten_arguments
from pytest_nsight.model.json_text import DecodingError, shown

MOST_REPEATS = 2**31

_Number = Annotated[int, Bounds(0, MOST_REPEATS)]
_Extent = tuple[_Number, _Number, _Number]


@dataclass(frozen=True, slots=True)
class StoredCode:
    """Format 3: machine code of a kernel."""

    digest: str
    instructions: Count = 0
    registers: _Number = 0
    frame_bytes: Count = 0
    shared_bytes: Count = 0
    loops: tuple[Count, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredLaunch:
    """Format 3: a launch, copy or set, as far as it decides what the device does."""

    kind: str
    name: str
    code: StoredCode | None = None
    grid: _Extent = (0, 0, 0)
    block: _Extent = (0, 0, 0)
    cluster: _Extent = (0, 0, 0)
    shared_bytes: Count = 0
    arguments: tuple[str, ...] = ()
    stream: Count = 0
    part: str = ""


@dataclass(frozen=True, slots=True)
class StoredIdentity:
    """Format 3: what a round launches: (key of a launch, how often in a row) in order; none of too many.

    `reading` is that of model/identity.py; identities without it are of the first.
    """

    digest: str
    order: tuple[tuple[str, _Number], ...] = ()
    reading: Count = 1


def store_launch(launch: LaunchIdentity) -> StoredLaunch:
    """The launch as a file holds it."""
    values = {field.name: getattr(launch, field.name) for field in dataclasses.fields(launch)}
    code = launch.code
    return StoredLaunch(**{**values, "code": None if code is None else StoredCode(**dataclasses.asdict(code))})


def restore_identities(
    launches: Mapping[str, StoredLaunch], identities: Mapping[str, StoredIdentity]
) -> dict[str, Identity]:
    """Key -> identity.

    Args:
        launches: key -> launch.
        identities: key -> what the file holds of an identity.

    Raises:
        DecodingError: an identity names a launch that is not there.
    """
    restored = {key: _restore_launch(stored) for key, stored in launches.items()}
    found = {}
    for key, stored in identities.items():
        places: dict[str, int] = {}
        for launch, _ in stored.order:
            if launch not in restored:
                raise DecodingError(
                    f".identities.{key}", f'has the key {shown(launch)}, which is not in "launches"'
                )
            places.setdefault(launch, len(places))
        found[key] = Identity(
            stored.digest,
            tuple(restored[launch] for launch in places),
            tuple((places[launch], times) for launch, times in stored.order),
            reading=stored.reading,
        )
    return found


def _restore_launch(stored: StoredLaunch) -> LaunchIdentity:
    values = {field.name: getattr(stored, field.name) for field in dataclasses.fields(stored)}
    code = stored.code
    machine_code = None if code is None else MachineCode(**dataclasses.asdict(code))
    # The first files of this format hold them whole.
    return shorten_arguments(LaunchIdentity(**{**values, "code": machine_code}))
