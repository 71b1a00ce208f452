"""Counts what each body launches with torch's own profiler and prints it as JSON: name -> kind -> count."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import torch

from tests.gpu.programs.bodies import BODIES

KINDS = ("kernel", "gpu_memcpy", "gpu_memset")


def count(body) -> dict[str, int]:
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        body()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    found = Counter(event.get("cat") for event in events)
    return {kind: found[kind] for kind in KINDS}


counts = {}
for name, prepare in BODIES.items():
    body = prepare(lambda _: nullcontext())
    for _ in range(3):
        body()
    torch.cuda.synchronize()
    counts[name] = count(body)
print(json.dumps(counts))
