"""What a frame of a call stack is: the program's own code, an operator of PyTorch, or a part of CUDA. Pure."""

from __future__ import annotations

import enum
import re
from collections.abc import Collection
from typing import NamedTuple

from pytest_nsight.model.kernel_names import scoped_name

PYTHON_NODE = "autograd.Function"
"""What a node of autograd is called that Python code defines."""


class Role(enum.IntEnum):
    """The part that a frame has in a launch."""

    SKIPPED = 0
    """An interpreter, the loader, the C library, the profiler, a library of templates: says nothing."""
    CUDA = 1
    """A function of the driver or of the runtime."""
    LIBRARY = 2
    """A function of one of NVIDIA's libraries, such as cuBLAS."""
    NAMELESS_LIBRARY = 3
    """The same without its name."""
    NAMELESS = 4
    """The program's own code without its name."""
    STUB = 5
    """The function that a compiler makes of a kernel, for the host to call."""
    OWN = 6
    """A function of the program's own code."""
    OPERATOR = 7
    """Where PyTorch calls an operator, such as at::_ops::addmm::call."""
    NODE = 8
    """Where autograd applies a node of its graph, such as AddmmBackward0."""
    ENGINE = 9
    """The loop of autograd's engine, which runs the backward pass."""


class FramePart(NamedTuple):
    """A frame.

    Attributes:
        role: what it is.
        label: what it is called; of a nameless one the file.
    """

    role: Role
    label: str


_OPERATOR = re.compile(r"at::_ops::(\w+)::(?:call|redispatch)\b")
_NODE = re.compile(r"torch::autograd::(?:\w+::)*(?!Function\b)(\w+)(?:<(.*)>)?::apply\(")
_ENGINE = re.compile(r"torch::autograd::(?:python::Python)?Engine::")
_SYSTEM_FILE = re.compile(
    r"""python[\d.]*$ | libpython | _ctypes\b | _cffi | \[ | ld[-.] | ld-linux
      | lib(?:c|m|dl|rt|pthread|util|stdc\+\+|c\+\+|c\+\+abi|gcc_s|ffi|gomp|iomp5|omp|tbb|nvToolsExt)[.-]
      | lib(?:cupti|ToolsInjection|Injection|nsys|Nsys|nvidia-) | (?:unknown|anon)\b""",
    re.VERBOSE | re.IGNORECASE,
)
_CUDA_FILE = re.compile(r"lib(?:cuda|cudart|nvrtc|nvJitLink)[.-]")
_LIBRARY_FILE = re.compile(
    r"lib(?:cublas|cudnn|cufft|curand|cusolver|cusparse|cutensor|cudss|nccl|nvshmem|npp|nvjpeg|nvinfer|cuequivariance)"
)
# A program may hold the runtime itself: nvcc links it so unless it is asked not to.
_CUDA_FUNCTION = re.compile(
    r"(?:static )?(?:cudaError(?:_t)? )?_*cuda(?:Launch|GraphLaunch|Memcpy|Memset)\w*(?:<|$)"
)
# What nvcc puts between a launch and the runtime, and the functions of the runtime that have no public name.
_LAUNCHER = re.compile(
    r"(?:\w+::)*__(?:wrapper__)?device_stub_ | __cudaLaunch | libcudart_static_ | cudart::", re.VERBOSE
)
_SYSTEM_FUNCTION = re.compile(r"(?:_start|__libc_start\w*|__clone\d?|clone\d?|start_thread|_init|_dl_\w+)$")
_TEMPLATES = re.compile(r"(?:std|thrust|cub|cuda|cute|cutlass|pybind11|nanobind|__gnu_cxx|c10)::")


def classify(symbol: str, module: str, kernels: Collection[str]) -> FramePart:
    """What a frame is.

    Args:
        symbol: name of the function with its scopes, arguments and templates; "" where it is not known.
        module: name of the file that holds it; "" where it is not known.
        kernels: names of kernels with their scopes, without templates and arguments.
    """
    if not module or _SYSTEM_FILE.match(module):
        return FramePart(Role.SKIPPED, module)
    if not symbol:
        return FramePart(_classify_file(module), module)
    return _classify_torch(symbol) or _classify_function(symbol, module, kernels)


def _classify_file(module: str) -> Role:
    if _CUDA_FILE.match(module):
        return Role.SKIPPED
    return Role.NAMELESS_LIBRARY if _LIBRARY_FILE.match(module) else Role.NAMELESS


def _classify_torch(symbol: str) -> FramePart | None:
    """The parts of PyTorch that say what is done; None for all others."""
    if match := _OPERATOR.match(symbol):
        return FramePart(Role.OPERATOR, f"aten::{match[1]}")
    if match := _NODE.match(symbol):
        return FramePart(Role.NODE, _name_node(match[1], match[2] or ""))
    return FramePart(Role.ENGINE, "backward") if _ENGINE.match(symbol) else None


def _classify_function(symbol: str, module: str, kernels: Collection[str]) -> FramePart:
    name = scoped_name(symbol) or symbol
    if _CUDA_FILE.match(module) or _CUDA_FUNCTION.match(symbol):
        return FramePart(Role.CUDA, name)
    if _LIBRARY_FILE.match(module):
        return FramePart(Role.LIBRARY, name)
    if _SYSTEM_FUNCTION.match(symbol) or _LAUNCHER.match(name) or _TEMPLATES.match(name):
        return FramePart(Role.SKIPPED, module)
    return FramePart(Role.STUB if name in kernels else Role.OWN, name)


def _name_node(name: str, argument: str) -> str:
    if name == "PyNode":
        return PYTHON_NODE
    return scoped_name(argument) or name if argument else name
