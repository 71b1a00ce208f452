"""A CUPTI without a GPU: tests/fakes/cupti.c as a library, and a program that uses the device through it."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from tests.toolchain import require_gcc

SOURCE = Path(__file__).parents[1] / "fakes" / "cupti.c"

ADD = b"_Z10add_kernelIfEvPT_S1_i"
"""void add_kernel<float>(float*, float*, int)"""


def compile_fake(folder: Path) -> Path:
    """Compiles the library."""
    path = folder / "libcupti_fake.so"
    subprocess.run([require_gcc(), "-shared", "-fPIC", "-o", str(path), str(SOURCE)], check=True)
    return path


class FakeDevice:
    """A program's view of the device."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        self._names: list[bytes] = []

    def launch(self, name: bytes = ADD, *, grid: int = 4, length_ns: int = 2000, by_driver: bool = False) -> None:
        # CUPTI's records point to the name, which the module keeps.
        self._names.append(name)
        function = self._library.fake_launch_by_driver if by_driver else self._library.fake_launch
        function(ctypes.c_char_p(self._names[-1]), grid, 128, ctypes.c_uint64(length_ns))

    def launch_graph(self, nodes: int, name: bytes = ADD) -> None:
        self._names.append(name)
        self._library.fake_graph_launch(ctypes.c_char_p(self._names[-1]), nodes, ctypes.c_uint64(500))

    def copy(self, direction: int, size: int) -> None:
        self._library.fake_copy(direction, ctypes.c_uint64(size), ctypes.c_uint64(1500))

    def copy_to_peer(self, size: int) -> None:
        self._library.fake_peer_copy(ctypes.c_uint64(size), ctypes.c_uint64(1500))

    def set(self, size: int) -> None:
        self._library.fake_set(ctypes.c_uint64(size), ctypes.c_uint64(700))

    def synchronize(self) -> None:
        self._library.fake_synchronize(ctypes.c_uint64(1000))

    def launch_and_fail(self) -> None:
        self._library.fake_failed_launch()

    def launch_into_capture(self) -> None:
        self._library.fake_captured_launch()

    def drop(self, records: int) -> None:
        self._library.fake_drop(ctypes.c_size_t(records))

    def start_other_profiler(self) -> None:
        self._library.fake_other_profiler_starts()

    def end_other_profiler(self) -> None:
        self._library.fake_other_profiler_ends()

    def set_number(self, name: str, value: int) -> None:
        """Sets one of the fake's switches, such as "hides_kernels"."""
        ctypes.c_int.in_dll(self._library, f"fake_{name}").value = value

    def number(self, name: str) -> int:
        return ctypes.c_int.in_dll(self._library, f"fake_{name}").value

    def limit_buffers(self, size: int) -> None:
        ctypes.c_size_t.in_dll(self._library, "fake_buffer_limit").value = size

    @property
    def record_sizes(self) -> list[int]:
        return list((ctypes.c_size_t * 5).in_dll(self._library, "fake_sizes"))
