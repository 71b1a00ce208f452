"""Measured by tests/gpu/test_without_torch.py; SPOILED names the case that takes twice its time."""

from __future__ import annotations

import os

import numpy
import pytest
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SPOILED = os.environ.get("SPOILED", "")
COUNT = 1 << 22
BYTES = 1 << 27
SOURCE = """
extern "C" __global__ void turn(float* x, int n, int turns) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) for (int turn = 0; turn < turns; ++turn) x[i] = sinf(x[i]) + 1.0f;
}
"""

pytestmark = pytest.mark.nsight(rounds=20, warmup=3, rest="1ms")


class Board:
    """A device with a stream and the kernel of SOURCE, compiled for it."""

    def __init__(self):
        self.device = Device()
        self.device.set_current()
        self.stream = self.device.create_stream()
        program = Program(SOURCE, "c++", options=ProgramOptions(std="c++17", arch=f"sm_{self.device.arch}"))
        self.kernel = program.compile("cubin").get_kernel("turn")

    def allocate(self, size):
        return self.device.allocate(size, stream=self.stream)

    def turn(self, stream, buffer, turns):
        config = LaunchConfig(grid=COUNT // 256, block=256)
        launch(stream, config, self.kernel, buffer, numpy.int32(COUNT), numpy.int32(turns))


@pytest.fixture
def board():
    return Board()


def test_kernel(nsight, board):
    buffer = board.allocate(4 * COUNT)
    nsight(board.turn, board.stream, buffer, 80 if SPOILED == "kernel" else 40)


@pytest.mark.nsight(metric="copy")
def test_copy(nsight, board):
    size = 2 * BYTES if SPOILED == "copy" else BYTES
    source, target = board.allocate(size), board.allocate(size)
    nsight(lambda: source.copy_to(target, stream=board.stream))


def test_graph(nsight, board):
    buffer = board.allocate(4 * COUNT)
    builder = board.device.create_graph_builder()
    builder.begin_building()
    for _ in range(20 if SPOILED == "graph" else 10):
        board.turn(builder, buffer, 10)
    graph = builder.end_building().complete()
    nsight(lambda: graph.launch(board.stream))
