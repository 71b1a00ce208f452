"""The layouts of CUPTI's activity records, and the records of a buffer as arrays.

The layouts are those of CUDA 12.0's cupti_activity.h. Later versions only append to them; checked with 12.9, 13.0
and 13.5.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_nsight.recorders.cupti.library import Cupti, CuptiError

COPY, SET, DRIVER, RUNTIME, CONCURRENT_KERNEL, PEER_COPY = 1, 2, 4, 5, 10, 22

Rows = npt.NDArray[Any]
"""Records of one kind, shape (records,), with the fields of its layout."""

_Fields = Mapping[str, tuple[int, Any]]


def _layout(fields: _Fields, size: int) -> np.dtype[Any]:
    formats = [np.dtype(kind) for _, kind in fields.values()]
    offsets = [offset for offset, _ in fields.values()]
    return np.dtype({"names": list(fields), "formats": formats, "offsets": offsets, "itemsize": size})


_PLACE: _Fields = {
    "kind": (0, "<u4"), "start": (16, "<u8"), "end": (24, "<u8"), "stream": (40, "<u4"), "device": (32, "<u4"),
}  # fmt: skip

LAYOUTS: Mapping[int, np.dtype[Any]] = {
    CONCURRENT_KERNEL: _layout(
        {
            **_PLACE,
            "cache": (4, "u1"),
            "registers": (6, "<u2"),
            "device": (40, "<u4"),
            "stream": (48, "<u4"),
            "grid": (52, ("<i4", 3)),
            "block": (64, ("<i4", 3)),
            "static_shared": (76, "<i4"),
            "dynamic_shared": (80, "<i4"),
            "correlation": (92, "<u4"),
            "name": (104, "<u8"),
            "has_carveout": (137, "u1"),
            "carveout": (138, "u1"),
            "graph_node": (144, "<u8"),
            "cluster": (176, ("<u4", 3)),
        },
        188,
    ),
    COPY: _layout(
        {
            **_PLACE,
            "direction": (4, "u1"),
            "source": (5, "u1"),
            "target": (6, "u1"),
            "bytes": (8, "<u8"),
            "correlation": (44, "<u4"),
            "graph_node": (64, "<u8"),
        },
        72,
    ),
    PEER_COPY: _layout(
        {
            **_PLACE,
            "direction": (4, "u1"),
            "source": (5, "u1"),
            "target": (6, "u1"),
            "bytes": (8, "<u8"),
            "correlation": (60, "<u4"),
            "graph_node": (72, "<u8"),
        },
        80,
    ),
    SET: _layout(
        {
            **_PLACE,
            "value": (4, "<u4"),
            "bytes": (8, "<u8"),
            "correlation": (44, "<u4"),
            "graph_node": (64, "<u8"),
        },
        72,
    ),
}  # fmt: skip
_API = _layout(
    {
        "kind": (0, "<u4"),
        "number": (4, "<u4"),
        "start": (8, "<u8"),
        "end": (16, "<u8"),
        "thread": (28, "<u4"),
        "correlation": (32, "<u4"),
        "result": (36, "<u4"),
    },
    40,
)
LAYOUTS = {**LAYOUTS, DRIVER: _API, RUNTIME: _API}


def split_records(cupti: Cupti, buffer: int, valid_bytes: int) -> Iterator[tuple[int, Rows]]:
    """Copies of the records in a completed buffer, kind by kind; kinds without a layout are left out.

    Args:
        cupti: finds the records.
        buffer: the address of the buffer.
        valid_bytes: how much of it holds records.

    Raises:
        CuptiError: a record is shorter than its layout.
    """
    if not valid_bytes:
        return
    offsets = np.array(cupti.record_addresses(buffer, valid_bytes), np.int64) - buffer
    raw = np.ctypeslib.as_array((ctypes.c_uint8 * valid_bytes).from_address(buffer))
    kinds = raw[offsets[:, None] + np.arange(4)].view("<u4")[:, 0]
    for kind, layout in LAYOUTS.items():
        own = offsets[kinds == kind]
        if not len(own):
            continue
        if own[-1] + layout.itemsize > valid_bytes:
            raise CuptiError(f"CUPTI's records of kind {kind} are shorter than CUDA 12.0's; update CUPTI")
        yield kind, raw[own[:, None] + np.arange(layout.itemsize)].view(layout)[:, 0]


def read_texts(addresses: npt.NDArray[Any]) -> dict[int, str]:
    """The texts at some addresses; at once, since a name goes with the module of its kernel.

    Args:
        addresses: of C strings, shape (any,); 0 stands for "".
    """
    return {
        address: ctypes.string_at(address).decode("utf-8", errors="replace") if address else ""
        for address in np.unique(addresses).tolist()
    }
