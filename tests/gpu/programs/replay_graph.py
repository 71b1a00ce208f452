"""Three ranges around one replay each of the graph of `bodies`; for a run under nsys without the plugin."""

from __future__ import annotations

import torch

from pytest_nsight.recorders.nvtx.ranges import emitter, within
from tests.gpu.programs.bodies import graph

ranges = emitter()
body = graph(lambda name: within(ranges, name, 90))
for number in range(3):
    with within(ranges, "replay", number):
        body()
        torch.cuda.synchronize()
