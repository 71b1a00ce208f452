"""Copies out of an export what a reader of the trace needs, and nothing that says whose machine it is.

An export holds the environment with its values, command lines, paths, the host's name and every process of
the machine. What is not listed here is not copied, so that a table of a later version stays out, too. Names
of ranges and kernels are kept as they are.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from pytest_nsight.collectors.nsys.known_errors import quote
from pytest_nsight.collectors.nsys.open_export import open_export
from pytest_nsight.collectors.nsys.python_stack_table import (
    ENTRIES,
    PAYLOAD,
    SCHEMAS,
    find_marks,
    find_string_ids,
    payload_schema,
)
from pytest_nsight.collectors.nsys.stack_tables import CHAINS, file_name
from pytest_nsight.model.errors import TraceError
from pytest_nsight.processes.regular_files import check_regular

_SPAN = "start end globalTid globalPid correlationId"
_PLACE = "deviceId contextId greenContextId streamId graphNodeId graphId graphExecId"
_COLUMNS = {
    "NVTX_EVENTS": "eventId start end eventType rangeId category color text globalTid endGlobalTid textId "
    f"domainId uint64Value int64Value doubleValue uint32Value int32Value floatValue {PAYLOAD}",
    SCHEMAS: "domainId schemaId name type numEntries payloadSize",
    ENTRIES: "domainId schemaId idx type name arrayOrUnionDetail offset",
    "CUPTI_ACTIVITY_KIND_KERNEL": f"{_SPAN} {_PLACE} demangledName shortName mangledName launchType "
    "cacheConfig registersPerThread gridX gridY gridZ blockX blockY blockZ clusterX clusterY clusterZ "
    "staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId "
    "sharedMemoryExecuted sharedMemoryLimitConfig",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_SPAN} {_PLACE} bytes copyKind srcKind dstKind srcDeviceId "
    "srcContextId dstDeviceId dstContextId copyCount",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{_SPAN} {_PLACE} value bytes memKind",
    "CUPTI_ACTIVITY_KIND_RUNTIME": f"{_SPAN} eventClass nameId returnValue callchainId",
    # Without addresses; of a module, which is a file, the folders are left out.
    CHAINS: "id symbol module unresolved stackDepth",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{_SPAN} {_PLACE} syncType deprecatedSyncType eventId eventSyncId",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{_SPAN} {_PLACE}",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start globalPid deviceId contextId address bytes memKind memoryOperationType "
    "correlationId streamId localMemoryPoolAddress localMemoryPoolSize localMemoryPoolUtilizedSize",
    "CUDA_GPU_MEMORY_POOL_EVENTS": "start globalPid deviceId address operationType poolType correlationId "
    "minBytesToKeep localMemoryPoolReleaseThreshold localMemoryPoolSize localMemoryPoolUtilizedSize",
    "CUDA_GRAPH_EVENTS": "start end eventClass globalTid nameId graphId originalGraphId graphExecId "
    "graphNodeId originalGraphNodeId",
    "CUDA_GRAPH_NODE_EVENTS": "start end eventClass globalTid nameId graphNodeId originalGraphNodeId",
    "TARGET_INFO_GPU": "id name busLocation l2CacheSize totalMemory memoryBandwidth clockRate smCount uuid "
    "chipName cuDevice maxWarpsPerSm maxBlocksPerSm maxRegistersPerSm maxShmemPerSm threadsPerWarp "
    "computeMajor computeMinor smMajor smMinor",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid uuid numMultiprocessors",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs",
    "GPU_METRICS": "timestamp typeId metricId value",
    "TARGET_INFO_GPU_METRICS": "typeId metricId metricName",
    "META_DATA_EXPORT": "name value",
    "EXPORT_META_DATA": "name value",
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text globalPid",
    # Without names: they are the programs that run on the machine.
    "PROCESSES": "globalPid pid",
    "StringIds": "id value",
}
_META_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")
# The other entries name files, the host and the user.
_FORMAT_NAMES = re.compile(r"EXPORT_(SCHEMA_VERSION\w*|PRODUCT_(NAME|VERSION|DATE)|PLATFORM|ARCH|(PARAM_)?LAZY)")
# Marks, ranges (pushed, started, of NVTXT) and domains; thread and category names (39, 33) are left behind.
_NVTX_KINDS = (34, 59, 60, 70, 71, 75, 76)
_STRING_COLUMNS = ("textId", "demangledName", "shortName", "mangledName", "nameId")
# What says that a file is not the program's own, and what it is called there.
_INSTALLED = re.compile(r"/(?:lib(?:64)?/python3\.\d+t?/)?(?:site|dist)-packages/.*|/lib(?:64)?/python3\.\d+t?/.*")
# Folders of what TorchInductor and Triton have written, that of a user without the name.
_WRITTEN = re.compile(r"/(torchinductor_(?=[^/]*/)|torch_compile_debug(?=/)|\.triton(?=/))")
# A diagnostic is kept if it is prose: no path, no assignment, nothing quoted.
_NOT_PROSE = re.compile(r"""[/\\`@$]|\w=|(^|[\s(])['"]""")


def scrub(source: Path, target: Path) -> None:
    """Writes a small database with the trace alone.

    Args:
        source: an export of Nsight Systems; only read.
        target: the database to write; replaced if it exists, whole or not at all.

    Raises:
        TraceError: the source is no such export, or the target cannot be written.
    """
    check_regular(source, follows_links=True)
    try:
        export = open_export(source)
        marks, (functions, files) = find_marks(export), find_string_ids(export)
    except TraceError as error:
        raise TraceError(f"Cannot scrub {source} into {target}: {error}.") from error
    partial = target.with_name(f".{target.name}.part{os.getpid()}")
    partial.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(partial.absolute().as_uri(), uri=True)) as database:
            database.create_function("is_about_format", 1, _is_about_format)
            database.create_function("is_prose", 1, _is_prose)
            database.create_function("file_name", 1, _name_file)
            database.create_function("python_file", 1, _name_python_file)
            database.create_function(
                "stack_of_python",
                3,
                lambda blob, task, domain: blob if marks.find_domain(task, domain, payload_schema(blob)) else None,
            )
            database.execute("attach ? as source", (f"{source.absolute().as_uri()}?mode=ro",))
            _copy(database)
            _copy_python_strings(database, functions, files)
            database.commit()
        partial.replace(target)
    except (sqlite3.Error, OSError, ValueError, OverflowError, MemoryError) as error:
        # ValueError: SQLite's own messages are decoded, too, and may be garbage.
        raise TraceError(f"Cannot scrub {source} into {target}: {quote(str(error))}; measure again.") from error
    finally:
        partial.unlink(missing_ok=True)


def pack(sqlite: Path, packed: Path) -> None:
    """Compresses a scrubbed database with xz, for recordings that are kept in a repository.

    Args:
        sqlite: the database; stays.
        packed: the `.xz` file to write.

    Raises:
        TraceError: one of them cannot be read or written.
    """
    try:
        with (
            sqlite.open("rb") as plain,
            lzma.open(packed, "wb", preset=9 | lzma.PRESET_EXTREME) as compressed,
        ):
            shutil.copyfileobj(plain, compressed)
    except OSError as error:
        raise TraceError(f"Cannot pack {sqlite} into {packed}: {error}; check both paths.") from error


def _copy(database: sqlite3.Connection) -> None:
    present = {name for (name,) in database.execute("select name from source.sqlite_master where type = 'table'")}
    if not present.intersection(_META_TABLES):
        raise sqlite3.DatabaseError("it has no export metadata, so it is not an export of Nsight Systems")
    kept: dict[str, list[str]] = {}
    for table, wanted in _COLUMNS.items():
        if table in present:
            kept[table] = _create(database, table, wanted.split())
    for table, columns in kept.items():
        names = ", ".join(f'"{column}"' for column in columns)
        # Other payloads may hold anything.
        place = ", ".join(f'"{column}"' if column in columns else "null" for column in ("globalTid", "domainId"))
        values = names.replace(f'"{PAYLOAD}"', f'stack_of_python("{PAYLOAD}", {place})')
        rows = f'select {values} from source."{table}" where {_rows(table, kept)}'
        database.execute(f'insert into main."{table}" ({names}) {rows}')
    if _holds_stacks(kept) and {"id", "value"}.issubset(kept.get("StringIds", ())):
        # A text that also names something else is there already.
        wanted = f"id in (select module from main.{CHAINS}) and id not in (select id from main.StringIds)"
        named = f"select id, file_name(cast(value as blob)) from source.StringIds where {wanted}"
        database.execute(f"insert into main.StringIds (id, value) {named}")


def _copy_python_strings(database: sqlite3.Connection, functions: Iterable[int], files: Iterable[int]) -> None:
    """The strings of Python's stacks; of files without the folders that say where Python is installed."""
    for ids, value in ((functions, "value"), (files, "python_file(cast(value as blob))")):
        text = (
            f"select id, {value} from source.StringIds where id = ? and id not in (select id from main.StringIds)"
        )
        database.executemany(f"insert into main.StringIds (id, value) {text}", ((int(one),) for one in ids))


def _holds_stacks(kept: Mapping[str, Sequence[str]]) -> bool:
    return {"symbol", "module", "unresolved"}.issubset(kept.get(CHAINS, ()))


def _create(database: sqlite3.Connection, table: str, wanted: list[str]) -> list[str]:
    """Makes an empty table of those wanted columns that the source has, under their types there."""
    types = {name: kind for _, name, kind, *_ in database.execute(f'pragma source.table_info("{table}")')}
    columns = [name for name in wanted if name in types]
    if not columns:
        raise sqlite3.DatabaseError(f"its table {table} has none of the expected columns")
    described = ", ".join(f'"{name}" {types[name]}' for name in columns)
    database.execute(f'create table main."{table}" ({described})')
    return columns


def _rows(table: str, kept: Mapping[str, Sequence[str]]) -> str:
    """The condition on a table's rows; those that depend on other tables come last in `_COLUMNS`."""
    if table == "NVTX_EVENTS":
        return f"eventType in {_NVTX_KINDS}"
    if table in _META_TABLES:
        return "is_about_format(cast(name as blob))"
    if table == "DIAGNOSTIC_EVENT":
        return "is_prose(cast(text as blob))"
    if table == "PROCESSES":
        # A thread's global id is its process's with the thread number in the lowest 24 bits.
        return f"globalPid in ({_used(kept, ('globalPid', 'globalTid'), '& ~16777215')})"
    if table == "StringIds":
        symbols = f"select symbol from main.{CHAINS} where not ifnull(unresolved, 0)"
        found = f" or id in ({symbols})" if _holds_stacks(kept) else ""
        return f"id in ({_used(kept, _STRING_COLUMNS)}){found}"
    return "1"


def _used(kept: Mapping[str, Sequence[str]], wanted: Sequence[str], mask: str = "") -> str:
    """A query for all values that the copied rows hold in the wanted columns."""
    places = [
        (table, column)
        for table, columns in kept.items()
        for column in wanted
        if column in columns and table != "PROCESSES"
    ]
    return " union ".join(f'select "{column}" {mask} from main."{table}"' for table, column in places) or "null"


def _is_about_format(name: bytes | None) -> bool:
    return name is not None and _FORMAT_NAMES.fullmatch(name.decode(errors="replace")) is not None


def _name_file(path: bytes | None) -> str:
    return file_name((path or b"").decode(errors="replace"))


def _name_python_file(path: bytes | None) -> str:
    text = (path or b"").decode(errors="replace")
    if match := _WRITTEN.search(text):
        return f"/{match[1]}/{file_name(text)}"
    match = _INSTALLED.search(text)
    return match[0] if match else file_name(text)


def _is_prose(text: bytes | None) -> bool:
    # Bytes that are no text may be anything.
    return text is not None and _NOT_PROSE.search(text.decode(errors="replace")) is None
