"""The layouts of CUPTI's records against NVIDIA's own header, which Triton brings."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from pytest_nsight.recorders.cupti.record_layouts import (
    CONCURRENT_KERNEL,
    COPY,
    DRIVER,
    LAYOUTS,
    PEER_COPY,
    RUNTIME,
    SET,
)
from tests.toolchain import lack, require_gcc

TYPES = {
    CONCURRENT_KERNEL: "CUpti_ActivityKernel9",
    COPY: "CUpti_ActivityMemcpy6",
    PEER_COPY: "CUpti_ActivityMemcpyPtoP4",
    SET: "CUpti_ActivityMemset4",
    DRIVER: "CUpti_ActivityAPI",
    RUNTIME: "CUpti_ActivityAPI",
}
KINDS = {
    CONCURRENT_KERNEL: "CONCURRENT_KERNEL", COPY: "MEMCPY", PEER_COPY: "MEMCPY2", SET: "MEMSET", DRIVER: "DRIVER",
    RUNTIME: "RUNTIME",
}  # fmt: skip
FIELDS = {
    "start": "start", "end": "end", "stream": "streamId", "device": "deviceId", "registers": "registersPerThread",
    "grid": "gridX", "block": "blockX", "static_shared": "staticSharedMemory",
    "dynamic_shared": "dynamicSharedMemory",
    "correlation": "correlationId", "name": "name", "graph_node": "graphNodeId", "cluster": "clusterX",
    "direction": "copyKind", "source": "srcKind", "target": "dstKind", "bytes": "bytes", "value": "value",
    "cache": "cacheConfig", "has_carveout": "isSharedMemoryCarveoutRequested",
    "carveout": "sharedMemoryCarveoutRequested",
    "number": "cbid", "thread": "threadId", "result": "returnValue", "kind": "kind",
}  # fmt: skip


@pytest.fixture(scope="module")
def header() -> Path:
    found = importlib.util.find_spec("triton")
    folder = Path(found.origin).parent / "backends/nvidia/include" if found and found.origin else Path("/nowhere")
    if not (folder / "cupti_activity.h").exists():
        lack("there is no copy of cupti_activity.h, which Triton brings: pip install triton")
    return folder


@pytest.mark.slow
def test_every_field_lies_where_the_header_has_it(header, tmp_path):
    questions = [(kind, field) for kind, layout in LAYOUTS.items() for field in layout.names or ()]
    lines = [f"offsetof({TYPES[kind]}, {FIELDS[field]})," for kind, field in questions]
    lines += [f"CUPTI_ACTIVITY_KIND_{KINDS[kind]}, sizeof({TYPES[kind]})," for kind in LAYOUTS]
    source = (
        "#include <cupti_activity.h>\n#include <stddef.h>\n#include <stdio.h>\n"
        f"static const size_t numbers[] = {{{' '.join(lines)}}};\n"
        "int main(void) {\n"
        '  for (size_t i = 0; i < sizeof numbers / 8; i++) printf("%zu\\n", numbers[i]);\n'
        "  return 0;\n}\n"
    )
    (tmp_path / "layouts.c").write_text(source)
    program = tmp_path / "layouts"
    subprocess.run([require_gcc(), f"-I{header}", "-o", str(program), str(tmp_path / "layouts.c")], check=True)
    numbers = [int(line) for line in subprocess.check_output([str(program)], text=True).split()]

    ours = [int(LAYOUTS[kind].fields[field][1]) for kind, field in questions]
    assert dict(zip(questions, numbers, strict=False)) == dict(zip(questions, ours, strict=True))
    of_kinds = numbers[len(questions) :]
    assert of_kinds[::2] == list(LAYOUTS)
    assert all(layout.itemsize <= size for layout, size in zip(LAYOUTS.values(), of_kinds[1::2], strict=True))


def test_the_stand_in_has_records_of_the_same_sizes_as_cuda_12_9(device):
    # sizeof() of Kernel9, Memcpy6, MemcpyPtoP4, Memset4 and API in CUDA 12.9.
    assert device.record_sizes == [208, 96, 96, 88, 40]
