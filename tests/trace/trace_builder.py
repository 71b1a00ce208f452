"""Writes small exports in the shape of Nsight Systems' SQLite files, one line a launch.

``TraceBuilder().range("case", 0, 100).launch("k", 10, 20, api_at=5).write(path)``

Nothing of the reader is used here: tables, columns and packed ids are spelled out again, so that a test does
not agree with the reader's mistakes.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

VINTAGES = ("2022.4", "2023.4", "2024.2", "2025.3", "2026.4")

PLACE = "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL"
GREEN = "greenContextId INTEGER"
LINK = "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER"
CONFIGURATION = (
    "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, "
    "cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, "
    "gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, "
    "blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, "
    "graphNodeId INTEGER"
)
NVTX = (
    "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, "
    "color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, "
    "uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, "
    "floatValue REAL, jsonTextId INTEGER, jsonText TEXT"
)
HARDWARE = 1 << 56
DOMAIN_ROW, PUSH_POP, START_END, MARK = 75, 59, 60, 34
STACK_ENTRIES = (("Thread state ID", None), ("Thread state", 8), ("Frames count", 12), ("Frames", 16))
FRAME_ENTRIES = (("Function", None), ("File", 8), ("Line", 16))
MEMORY_KINDS = ("pageable", "pinned", "device", "array", "managed", "device static", "managed static", "unknown")
COPY_KINDS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "PtoP": 10, "UVM HtoD": 11, "UVM DtoH": 12}


def table_definitions(vintage: str) -> dict[str, str]:
    """Columns of each table as one version of nsys declares them."""
    has_green = vintage != "2022.4"
    place = f"{PLACE}, {GREEN}, {LINK}" if has_green else f"{PLACE}, {LINK}"
    is_2026 = vintage == "2026.4"
    tables = {
        "NVTX_EVENTS": ("eventId INTEGER PRIMARY KEY, " if is_2026 else "")
        + NVTX
        + (", binaryData BLOB" if vintage >= "2025" else ""),
        "NVTX_PAYLOAD_SCHEMAS": "domainId INTEGER NOT NULL, schemaId INTEGER, name TEXT, type INTEGER, "
        "flags INTEGER, numEntries INTEGER, payloadSize INTEGER, alignTo INTEGER",
        "NVTX_PAYLOAD_SCHEMA_ENTRIES": "domainId INTEGER NOT NULL, schemaId INTEGER NOT NULL, "
        "idx INTEGER NOT NULL, flags INTEGER, type INTEGER, name TEXT, description TEXT, "
        "arrayOrUnionDetail INTEGER, offset INTEGER",
        "CUPTI_ACTIVITY_KIND_KERNEL": f"{place}, {CONFIGURATION}" + (", clusterX INTEGER" if is_2026 else ""),
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER NOT NULL, end INTEGER NOT NULL, "
        "eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, "
        "returnValue INTEGER NOT NULL, callchainId INTEGER",
        "CUDA_CALLCHAINS": "id INTEGER NOT NULL, symbol INTEGER NOT NULL, module INTEGER NOT NULL, "
        "unresolved INTEGER, originalIP INTEGER, stackDepth INTEGER NOT NULL, PRIMARY KEY (id, stackDepth)",
        "OSRT_API": "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, "
        "nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, nestingLevel INTEGER, callchainId INTEGER NOT NULL",
        "CUPTI_ACTIVITY_KIND_MEMCPY": f"{place}, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, "
        "srcKind INTEGER, dstKind INTEGER, graphNodeId INTEGER",
        "CUPTI_ACTIVITY_KIND_MEMSET": f"{place}, value INTEGER NOT NULL, bytes INTEGER NOT NULL, "
        "graphNodeId INTEGER, memKind INTEGER",
        "CUDA_GPU_MEMORY_USAGE_EVENTS": "start INTEGER NOT NULL, globalPid INTEGER NOT NULL, "
        "deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT NULL, "
        "bytes INTEGER NOT NULL, memKind INTEGER NOT NULL, memoryOperationType INTEGER NOT NULL, name TEXT, "
        "correlationId INTEGER, "
        + ("streamId INTEGER, " if vintage >= "2025" else "")
        + "localMemoryPoolAddress INTEGER, "
        "localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER, "
        "localMemoryPoolUtilizedSize INTEGER, importedMemoryPoolAddress INTEGER, "
        "importedMemoryPoolProcessId INTEGER",
        "CUDA_GPU_MEMORY_POOL_EVENTS": "start INTEGER NOT NULL, globalPid INTEGER NOT NULL, "
        "deviceId INTEGER NOT NULL, address INTEGER NOT NULL, operationType INTEGER NOT NULL, "
        "poolType INTEGER NOT NULL, correlationId INTEGER, minBytesToKeep INTEGER, "
        "localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER, localMemoryPoolUtilizedSize INTEGER",
        "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
        "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
        "TARGET_INFO_GPU": "id INTEGER NOT NULL, name TEXT, uuid TEXT, cuDevice INTEGER, memoryBandwidth INTEGER, "
        "smCount INTEGER, totalMemory INTEGER",
        "TARGET_INFO_GPU_METRICS": "typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL, typeName TEXT NOT NULL, "
        "metricId INTEGER NOT NULL, metricName TEXT NOT NULL",
        "GPU_METRICS": "rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER NOT NULL, "
        "metricId INTEGER NOT NULL, value INTEGER NOT NULL",
        ("META_DATA_EXPORT" if has_green else "EXPORT_META_DATA"): "name TEXT NOT NULL, value TEXT",
    }
    if vintage >= "2024":
        tables["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"] = (
            f"{place}, graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL"
        )
        tables["DIAGNOSTIC_EVENT"] = (
            "timestamp INTEGER NOT NULL, timestampType INTEGER NOT NULL, source INTEGER NOT NULL, "
            "severity INTEGER NOT NULL, text TEXT NOT NULL, globalPid INTEGER"
        )
    nodes = "start INTEGER NOT NULL, end INTEGER, eventClass INTEGER NOT NULL, globalTid INTEGER, nameId INTEGER"
    tables["CUDA_GRAPH_NODE_EVENTS" if vintage >= "2024" else "CUDA_GRAPH_EVENTS"] = (
        f"{nodes}, graphNodeId INTEGER NOT NULL, originalGraphNodeId INTEGER"
    )
    if vintage >= "2024":
        # The same name for another thing: whole graphs.
        tables["CUDA_GRAPH_EVENTS"] = (
            f"{nodes}, graphId INTEGER NOT NULL, originalGraphId INTEGER, graphExecId INTEGER"
        )
    if vintage >= "2025":
        tables["TARGET_INFO_CUDA_DEVICE"] = "gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL"
    return tables


class TraceBuilder:
    """Collects rows, and writes only the tables that got any, as nsys does."""

    def __init__(self, vintage: str = "2025.3") -> None:
        self.definitions = table_definitions(vintage)
        self.node_table = "CUDA_GRAPH_NODE_EVENTS" if vintage >= "2024" else "CUDA_GRAPH_EVENTS"
        self.rows: dict[str, list[dict[str, object]]] = {}
        self._strings: dict[str, int] = {}
        self._domains: dict[tuple[int, str], int] = {}
        self._correlation = 100
        metadata = "META_DATA_EXPORT" if "META_DATA_EXPORT" in self.definitions else "EXPORT_META_DATA"
        self.row(metadata, name="EXPORT_PRODUCT_NAME", value="NVIDIA Nsight Systems")
        self.row(metadata, name="EXPORT_PRODUCT_VERSION", value=f"{vintage}.0.0")
        self.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_700_000_000_000_000_000)

    def row(self, table: str, **values: object) -> TraceBuilder:
        """Any row; columns that this version lacks are left out."""
        columns = [part.split()[0] for part in self.definitions[table].split(", PRIMARY KEY (")[0].split(", ")]
        self.rows.setdefault(table, []).append({k: v for k, v in values.items() if k in columns})
        return self

    def string(self, text: str) -> int:
        """Id of a registered string."""
        return self._strings.setdefault(text, len(self._strings) + 1)

    def range(
        self,
        name: str,
        start: int,
        end: int | None,
        *,
        domain: str = "pytest_nsight",
        payload: int | None = None,
        process: int = 100,
        thread: int = 100,
        is_registered: bool = False,
        is_pushed: bool = True,
    ) -> TraceBuilder:
        """A range; one that is not pushed is an NVTX start/end range."""
        text = {"textId": self.string(name)} if is_registered else {"text": name}
        return self.row(
            "NVTX_EVENTS",
            start=start,
            end=end,
            eventType=PUSH_POP if is_pushed else START_END,
            globalTid=_task(process, thread),
            endGlobalTid=None if is_pushed else _task(process, thread),
            domainId=self._domain(process, domain),
            int64Value=payload,
            **text,
        )

    def launch(
        self,
        name: str,
        start: int,
        end: int,
        *,
        api_at: int | None = None,
        api_ns: int = 2,
        api: str = "cudaLaunchKernel_v7000",
        process: int = 100,
        thread: int = 100,
        stream: int = 7,
        device: int = 0,
        grid: Sequence[int] = (1, 1, 1),
        block: Sequence[int] = (32, 1, 1),
        registers: int = 16,
        static_shared: int = 0,
        dynamic_shared: int = 0,
        correlation: int | None = None,
    ) -> TraceBuilder:
        """A kernel with its call, which begins at api_at; without api_at, a kernel that nothing launched."""
        link = self._call(api_at, api_ns, api, process, thread, correlation)
        return self._kernel(
            name, start, end, link, process, stream, device,
            gridX=grid[0], gridY=grid[1], gridZ=grid[2], blockX=block[0], blockY=block[1], blockZ=block[2],
            registersPerThread=registers,
            staticSharedMemory=static_shared, dynamicSharedMemory=dynamic_shared,
        )  # fmt: skip

    def graph_nodes(
        self, nodes: Sequence[tuple[str, int, int]], *, api_at: int, process: int = 100, thread: int = 100
    ) -> TraceBuilder:
        """A CUDA graph traced by node: many kernels, one call. Nodes are numbered from 1 on."""
        link = self._call(api_at, 2, "cudaGraphLaunch_v10000", process, thread, None)
        for number, (name, start, end) in enumerate(nodes, 1):
            self._kernel(name, start, end, link, process, 7, 0, graphNodeId=number)
        return self

    def node_made(
        self, at: int, node: int, *, original: int | None = None, process: int = 100, thread: int = 100
    ) -> TraceBuilder:
        """A node of a graph was captured, or, with an original, copied when the graph was instantiated."""
        return self.row(
            self.node_table,
            start=at,
            end=at,
            eventClass=77,
            globalTid=_task(process, thread),
            nameId=self.string("Graph Node Creation"),
            graphNodeId=node,
            originalGraphNodeId=original,
        )

    def graph(self, start: int, end: int, *, api_at: int, process: int = 100) -> TraceBuilder:
        """A CUDA graph traced whole."""
        link = self._call(api_at, 2, "cudaGraphLaunch_v10000", process, process, None)
        place = _place(start, end, link, process, 7, 0)
        return self.row("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", graphId=1, graphExecId=1, **place)

    def copy(
        self,
        start: int,
        end: int,
        bytes_moved: int,
        *,
        api_at: int,
        api_ns: int = 2,
        kind: str = "HtoD",
        is_pageable: bool = False,
        process: int = 100,
    ) -> TraceBuilder:
        """A memory copy from pinned or pageable host memory, or between devices."""
        link = self._call(api_at, api_ns, "cudaMemcpyAsync_v3020", process, process, None)
        place = _place(start, end, link, process, 7, 0)
        kinds = {"copyKind": COPY_KINDS[kind], "srcKind": 0 if is_pageable else 1, "dstKind": 2}
        return self.row("CUPTI_ACTIVITY_KIND_MEMCPY", bytes=bytes_moved, **kinds, **place)

    def migration(self, start: int, end: int, bytes_moved: int, *, kind: str = "UVM HtoD") -> TraceBuilder:
        """Pages of managed memory that move because one was touched: no call makes that, and no side is named."""
        kinds = {"copyKind": COPY_KINDS[kind], "srcKind": 7, "dstKind": 7}
        place = _place(start, end, 0, 100, 7, 0)
        return self.row("CUPTI_ACTIVITY_KIND_MEMCPY", bytes=bytes_moved, **kinds, **place)

    def memset(self, start: int, end: int, bytes_moved: int, *, api_at: int, process: int = 100) -> TraceBuilder:
        """A memory set."""
        link = self._call(api_at, 2, "cudaMemsetAsync_v3020", process, process, None)
        place = _place(start, end, link, process, 7, 0)
        return self.row("CUPTI_ACTIVITY_KIND_MEMSET", bytes=bytes_moved, value=0, **place)

    def call(
        self, name: str, start: int, end: int, *, process: int = 100, thread: int = 100, code: int = 0
    ) -> TraceBuilder:
        """A call of the API that launches nothing; with a code other than 0 it failed."""
        self._call(start, end - start, name, process, thread, None, code)
        return self

    def stack(self, *frames: str) -> TraceBuilder:
        """The backtrace of the last call, from the innermost frame to the outermost: "function @ /path/of/file".

        A frame without a function, such as "@ /usr/bin/app", is one that nsys did not resolve.
        """
        table = self.rows.setdefault("CUDA_CALLCHAINS", [])
        chain = 1 + max((int(str(row["id"])) for row in table), default=0)
        self.rows["CUPTI_ACTIVITY_KIND_RUNTIME"][-1]["callchainId"] = chain
        for depth, frame in enumerate(frames):
            function, _, file = frame.rpartition("@")
            address = 0x7F0000000000 + 16 * len(table)
            self.row(
                "CUDA_CALLCHAINS",
                id=chain,
                symbol=self.string(function.strip() or hex(address)),
                module=self.string(file.strip()),
                unresolved=None if function.strip() else 1,
                originalIP=address,
                stackDepth=depth,
            )
        return self

    def python_stack(
        self, at: int, *frames: str, is_sample: bool = True, process: int = 100, thread: int = 100
    ) -> TraceBuilder:
        """A stack of Python, from the innermost frame to the outermost: "function @ /path/of/file.py:31".

        It is a sample, or belongs to a call of CUDA that begins at this time.
        """
        name = "Python Periodic Sampling" if is_sample else "Python Backtrace on CUDA"
        domain, schema = self._domain(process, name), (1 << 32) + 2 + 3 * is_sample
        if schema not in [row["schemaId"] for row in self.rows.get("NVTX_PAYLOAD_SCHEMAS", ())]:
            for number, kind, entries in ((schema, name, STACK_ENTRIES), (schema - 2, None, FRAME_ENTRIES)):
                self.row("NVTX_PAYLOAD_SCHEMAS", domainId=domain, schemaId=number, name=kind)
                for place, (entry, offset) in enumerate(entries):
                    of = schema - 2 if entry == "Frames" else 18
                    row = {"idx": place, "type": of, "name": entry, "offset": offset}
                    self.row("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=domain, schemaId=number, **row)
        payload = struct.pack("<QII", 1, 1, len(frames))
        for frame in frames:
            function, where = frame.split(" @ ")
            file, _, line = where.rpartition(":")
            # nsys escapes names, and leaves what was in memory beside the line.
            escaped = self.string(function.replace("<", "&lt;").replace(">", "&gt;"))
            payload += struct.pack("<QQiI", escaped, self.string(file), int(line), 0x7F5D)
        blob = struct.pack("<QQQQ", 1, schema, len(payload), 32) + payload
        task = _task(process, thread)
        return self.row("NVTX_EVENTS", start=at, eventType=MARK, globalTid=task, domainId=domain, binaryData=blob)

    def os_call(
        self, name: str, start: int, end: int, *, process: int = 100, thread: int = 100, level: int = 0
    ) -> TraceBuilder:
        """A call of the operating system's libraries; level 1 is one inside another."""
        link = {"globalTid": _task(process, thread), "nameId": self.string(name), "nestingLevel": level}
        return self.row("OSRT_API", start=start, end=end, eventClass=27, returnValue=0, callchainId=0, **link)

    def memory(
        self,
        at: int,
        address: int,
        size_bytes: int,
        *,
        is_free: bool = False,
        kind: str = "device",
        pool: int | None = None,
        pool_bytes: int | None = None,
        process: int = 100,
        thread: int = 100,
        device: int = 0,
    ) -> TraceBuilder:
        """Memory that CUDA hands out or, with ``is_free``, takes back, and the call that does it."""
        name = "cudaFree_v3020" if is_free else "cudaMalloc_v3020"
        return self.row(
            "CUDA_GPU_MEMORY_USAGE_EVENTS",
            start=at,
            globalPid=HARDWARE | process << 24,
            deviceId=device,
            contextId=1,
            address=address,
            pc=0,
            bytes=size_bytes,
            memKind=MEMORY_KINDS.index(kind),
            memoryOperationType=int(is_free),
            correlationId=self._call(at - 1, 2, name, process, thread, None),
            localMemoryPoolAddress=pool,
            localMemoryPoolSize=pool_bytes,
        )

    def pool_event(
        self, at: int, pool: int, pool_bytes: int, *, operation: str = "trimmed", process: int = 100
    ) -> TraceBuilder:
        """A pool is made, is destroyed, or gives back what it does not use; and the call for it."""
        return self.row(
            "CUDA_GPU_MEMORY_POOL_EVENTS",
            start=at,
            globalPid=HARDWARE | process << 24,
            deviceId=0,
            address=pool,
            operationType=("invalid", "created", "destroyed", "trimmed").index(operation),
            poolType=1,
            correlationId=self._call(at - 1, 2, "cudaMemPoolTrimTo_v11020", process, process, None),
            localMemoryPoolSize=pool_bytes,
        )

    def diagnostic(self, text: str, severity: int = 2, process: int | None = None) -> TraceBuilder:
        """A message of nsys itself, on a process or on the whole."""
        task = None if process is None else HARDWARE | process << 24
        row = {"timestamp": 1, "timestampType": 1, "source": 1, "severity": severity, "text": text}
        return self.row("DIAGNOSTIC_EVENT", globalPid=task, **row)

    def domain(self, name: str, process: int = 100) -> TraceBuilder:
        """A domain, with or without ranges."""
        self._domain(process, name)
        return self

    def board(
        self,
        uuid: str,
        name: str,
        *,
        ordinal: int = 0,
        process: int | None = None,
        bytes_per_s: int | None = None,
        multiprocessors: int | None = None,
        memory_bytes: int | None = None,
    ) -> TraceBuilder:
        """A GPU, and from 2025 on the ordinal under which a process knows it."""
        number = len(self.rows.get("TARGET_INFO_GPU", ()))
        self.row(
            "TARGET_INFO_GPU",
            id=HARDWARE | number,
            name=name,
            uuid=uuid,
            cuDevice=number,
            memoryBandwidth=bytes_per_s,
            smCount=multiprocessors,
            totalMemory=memory_bytes,
        )
        if process is not None:
            self.row("TARGET_INFO_CUDA_DEVICE", gpuId=HARDWARE | number, cudaId=ordinal, pid=process)
        return self

    def metric_names(self, names: Sequence[str], *, board: int = 0) -> TraceBuilder:
        """The sampled metrics of a board, numbered from 0 on."""
        for number, name in enumerate(names):
            kind = HARDWARE | 1 << 32 | board
            row = {"typeId": kind, "sourceId": kind, "typeName": "", "metricId": number, "metricName": name}
            self.row("TARGET_INFO_GPU_METRICS", **row)
        return self

    def sample(self, time: int, *values: int, board: int = 0) -> TraceBuilder:
        """One sample: a value of each metric, in the order of their names."""
        for number, value in enumerate(values):
            row = {"rawTimestamp": time, "timestamp": time, "metricId": number, "value": value}
            self.row("GPU_METRICS", typeId=HARDWARE | 1 << 32 | board, **row)
        return self

    def write(self, path: Path) -> Path:
        """Write the export."""
        path.unlink(missing_ok=True)
        strings = [{"id": number, "value": text} for text, number in self._strings.items()]
        with closing(sqlite3.connect(path)) as connection:
            for table, rows in {**self.rows, "StringIds": strings}.items():
                connection.execute(f"CREATE TABLE {table} ({self.definitions[table]})")
                for values in rows:
                    marks = ", ".join("?" * len(values))
                    insert = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})"
                    connection.execute(insert, tuple(values.values()))
            connection.commit()
        return path

    def _domain(self, process: int, name: str) -> int:
        if not name:
            return 0
        if (process, name) not in self._domains:
            number = 1 + sum(p == process for p, _ in self._domains)
            self._domains[process, name] = number
            task = _task(process, process)
            self.row("NVTX_EVENTS", start=0, eventType=DOMAIN_ROW, text=name, globalTid=task, domainId=number)
        return self._domains[process, name]

    def _call(
        self,
        start: int | None,
        length: int,
        name: str,
        process: int,
        thread: int,
        correlation: int | None,
        code: int = 0,
    ) -> int:
        if correlation is None:
            self._correlation += 1
            correlation = self._correlation
        if start is not None:
            self.row(
                "CUPTI_ACTIVITY_KIND_RUNTIME",
                start=start,
                end=start + length,
                eventClass=0,
                globalTid=_task(process, thread),
                correlationId=correlation,
                nameId=self.string(name),
                returnValue=code,
            )
        return correlation

    def _kernel(
        self,
        name: str,
        start: int,
        end: int,
        link: int,
        process: int,
        stream: int,
        device: int,
        **more: object,
    ) -> TraceBuilder:
        defaults: dict[str, object] = dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), 1)
        defaults |= dict.fromkeys(("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"), 0)
        names = {"demangledName": self.string(name), "shortName": self.string(name)}
        place = _place(start, end, link, process, stream, device)
        return self.row("CUPTI_ACTIVITY_KIND_KERNEL", **place, **names, **(defaults | more))


def _task(process: int, thread: int) -> int:
    return HARDWARE | process << 24 | thread


def _place(start: int, end: int, link: int, process: int, stream: int, device: int) -> dict[str, object]:
    ids = {"deviceId": device, "contextId": 1, "streamId": stream, "correlationId": link}
    return {"start": start, "end": end, "globalPid": HARDWARE | process << 24, **ids}
