"""The table of call stacks, which nsys writes with `--cudabacktrace`.

Each frame of each recorded call is a row, so that the table may be far larger than that of the calls. Only stacks
of calls that launched something are kept, and names are read once each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_nsight.collectors.nsys.call_tables import NO_CHAIN
from pytest_nsight.collectors.nsys.columns import Arrays, ExportColumn, read_columns
from pytest_nsight.collectors.nsys.open_export import Export
from pytest_nsight.collectors.nsys.string_table import read_texts
from pytest_nsight.model.call_stacks import NO_STACK, UNRESOLVED, CallStacks
from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import Calls, Launches

CHAINS = "CUDA_CALLCHAINS"
COLUMNS: Sequence[ExportColumn] = (
    ExportColumn("id"),
    ExportColumn("symbol", -1),
    ExportColumn("module", -1),
    ExportColumn("unresolved", 0),
    ExportColumn("stackDepth"),
)
_FOLDERS = re.compile(r".*[/\\]", re.DOTALL)


def read_stacks(export: Export, chain: npt.NDArray[Any], calls: Calls, launches: Launches) -> CallStacks:
    """The stacks of the calls that launched something.

    Args:
        export: the file.
        chain: shape (calls,), id of each call's stack; negative where it has none.
        calls: of the CUDA API.
        launches: what they launched.

    Raises:
        TraceError: the table is damaged.
    """
    chosen = np.flatnonzero((chain != NO_CHAIN) & (calls.correlation != 0))
    if not len(chosen) or not export.has(CHAINS):
        return CallStacks()
    chosen = chosen[np.isin(calls.correlation[chosen], launches.correlation)]
    of_call = np.full(len(chain), NO_STACK, np.int32)
    if not len(chosen):
        return CallStacks(of_call)
    frames = _keep(read_columns(export, {CHAINS: COLUMNS})[CHAINS], distinct(chain[chosen]))
    ids = distinct(frames["id"])
    if not len(ids):
        return CallStacks(of_call)
    place = np.minimum(np.searchsorted(ids, chain[chosen]), len(ids) - 1)
    of_call[chosen] = np.where(ids[place] == chain[chosen], place, NO_STACK)
    # Every address without a symbol is a string of its own.
    symbols = distinct(frames["symbol"][frames["unresolved"] == 0])
    modules = distinct(frames["module"])
    texts = read_texts(export, distinct(np.concatenate([symbols, modules])))
    names: dict[str, int] = {}
    function = [
        names.setdefault(text, len(names)) if (text := texts.get(one)) else UNRESOLVED for one in symbols.tolist()
    ]
    file = [names.setdefault(file_name(texts.get(one, "")), len(names)) for one in modules.tolist()]
    symbol = _renumber(frames["symbol"], symbols, function)
    return CallStacks(
        of_call=of_call,
        stack=np.searchsorted(ids, frames["id"]).astype(np.int32),
        symbol=np.where(frames["unresolved"] == 0, symbol, np.int32(UNRESOLVED)),
        module=_renumber(frames["module"], modules, file),
        names=tuple(names),
    )


def file_name(path: str) -> str:
    """The name of a file without its folders, which say whose machine it is."""
    return _FOLDERS.sub("", path)


def _keep(frames: Arrays, ids: npt.NDArray[Any]) -> Arrays:
    """The frames of the stacks with these ids, by stack, the innermost frame first."""
    is_kept = np.isin(frames["id"], ids)
    if not is_kept.all():
        frames = {name: column[is_kept] for name, column in frames.items()}
    of_stack, depth = frames["id"], frames["stackDepth"]
    is_later = (of_stack[1:] > of_stack[:-1]) | ((of_stack[1:] == of_stack[:-1]) & (depth[1:] > depth[:-1]))
    if is_later.all():
        return frames
    order = np.lexsort((depth, of_stack))
    return {name: column[order] for name, column in frames.items()}


def _renumber(ids: npt.NDArray[Any], known: npt.NDArray[Any], numbers: Sequence[int]) -> npt.NDArray[np.int32]:
    """The number of each id; what is not known gets that of any other."""
    if not len(known):
        return np.full(len(ids), UNRESOLVED, np.int32)
    return np.asarray(numbers, np.int32)[np.minimum(np.searchsorted(known, ids), len(known) - 1)]
