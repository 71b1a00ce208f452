"""Changes that an identity must see, and changes that it must not see. Needs a CUDA device and Triton.

The kernels of a pair have the same name, because each is defined in a function of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from ctypes import c_uint64
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.cupti.cases import Body
from kernels._triton import jit, tl
from pytest_nsight.worker.cuda_driver import load_driver
from pytest_nsight.worker.nvrtc import compile_source, load_nvrtc

_COUNT = 1 << 20
_BLOCK = 1024
_CUDA_C = """
extern "C" __global__ void identity_sine(float* x, unsigned long long n) {
    unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
    if (i < n) x[i] = sinf(x[i]) * %s;
}
"""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change.

    Attributes:
        name: what is changed.
        before: builds the body without the change.
        after: builds the body with it.
        changes_work: whether the device does anything else.
    """

    name: str
    before: Callable[[], Body]
    after: Callable[[], Body]
    changes_work: bool = True


def _plain() -> Any:
    @jit
    def _identity_kernel(x_ptr, y_ptr, n, factor, LOOPS: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
        for _ in range(LOOPS):
            value = value * factor + 1.0
        tl.store(y_ptr + offsets, value, mask=offsets < n)

    return _identity_kernel


def _commented() -> Any:
    @jit
    def _identity_kernel(x_ptr, y_ptr, n, factor, LOOPS: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        # The places of this program's elements, which are
        # neighbours in memory.
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)

        # Beyond the end nothing is read.
        value = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
        for _ in range(LOOPS):
            value = value * factor + 1.0
        tl.store(y_ptr + offsets, value, mask=offsets < n)

    return _identity_kernel


def _renamed() -> Any:
    @jit
    def _identity_kernel(x_ptr, y_ptr, n, factor, LOOPS: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        number = tl.load(x_ptr + places, mask=places < n, other=0.0).to(tl.float32)
        for _ in range(LOOPS):
            number = number * factor + 1.0
        tl.store(y_ptr + places, number, mask=places < n)

    return _identity_kernel


def _other_constant() -> Any:
    @jit
    def _identity_kernel(x_ptr, y_ptr, n, factor, LOOPS: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
        for _ in range(LOOPS):
            value = value * factor + 1.5
        tl.store(y_ptr + offsets, value, mask=offsets < n)

    return _identity_kernel


def _other_operation() -> Any:
    @jit
    def _identity_kernel(x_ptr, y_ptr, n, factor, LOOPS: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
        for _ in range(LOOPS):
            value = value * factor - 1.0
        tl.store(y_ptr + offsets, value, mask=offsets < n)

    return _identity_kernel


def _pipelined() -> Any:
    @jit
    def _identity_products(x_ptr, y_ptr, COUNT: tl.constexpr, SIDE: tl.constexpr):  # type: ignore[no-untyped-def]
        rows, columns = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
        total = tl.zeros((SIDE, SIDE), dtype=tl.float32)
        for step in range(COUNT):
            tile = tl.load(x_ptr + (step * SIDE + rows) * SIDE + columns)
            total = tl.dot(tile, tile, total)
        tl.store(y_ptr + rows * SIDE + columns, total)

    return _identity_products


def _launch(
    make: Callable[[], Any] = _plain,
    *,
    count: int = _COUNT,
    size: int = _COUNT,
    factor: float = 1.5,
    loops: int = 3,
    block: int = _BLOCK,
    shift: int = 0,
    dtype: torch.dtype = torch.float32,
    in_place: bool = False,
    **options: Any,
) -> Callable[[], Body]:
    def build() -> Body:
        kernel = make()
        x = torch.ones(size + 16, device="cuda", dtype=dtype)[shift : shift + size]
        y = x if in_place else torch.empty(size + 16, device="cuda", dtype=dtype)[:size]
        grid = (-(-size // block),)
        return lambda: kernel[grid](x, y, count, factor, LOOPS=loops, BLOCK=block, **options)

    return build


def _multiply_tiles(stages: int) -> Callable[[], Body]:
    def build() -> Body:
        kernel, tiles, side = _pipelined(), 32, 64
        x = torch.ones(tiles * side, side, device="cuda", dtype=torch.float16)
        y = torch.empty(side, side, device="cuda")
        return lambda: kernel[(1,)](x, y, COUNT=tiles, SIDE=side, num_stages=stages)

    return build


def _compiled(*options: str, factor: str = "1.0f") -> Callable[[], Body]:
    def build() -> Body:
        driver = load_driver()
        assert driver is not None
        image = compile_source(load_nvrtc(), _CUDA_C % factor, driver.architecture, options).image
        function = driver.load_functions(image, ["identity_sine"])["identity_sine"]
        x = torch.ones(_COUNT, device="cuda")
        arguments = [c_uint64(x.data_ptr()), c_uint64(x.numel())]

        def body() -> torch.Tensor:
            driver.launch(function, _COUNT // 256, 256, arguments)
            # The arguments hold x's address only.
            return x

        return body

    return build


def _torch(make_body: Callable[[torch.Tensor], Body], *shape: int, dtype: torch.dtype = torch.float32) -> Any:
    return lambda: make_body(torch.ones(*(shape or (_COUNT,)), device="cuda", dtype=dtype))


def _together(*bodies: Callable[[], Body]) -> Callable[[], Body]:
    def build() -> Body:
        built = [make() for make in bodies]

        def run() -> None:
            for body in built:
                body()

        return run

    return build


def _on_stream() -> Body:
    x, stream = torch.ones(_COUNT, device="cuda"), torch.cuda.Stream()

    def body() -> None:
        x.add_(1)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            x.mul_(1)

    return body


def _graph(nodes: int) -> Callable[[], Body]:
    def build() -> Body:
        x = torch.ones(_COUNT, device="cuda")
        x.add_(1)
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            for _ in range(nodes):
                x.add_(1)

        def body() -> torch.Tensor:
            captured.replay()
            # The graph holds x's address only.
            return x

        return body

    return build


def _with_host_work(build: Callable[[], Body]) -> Callable[[], Body]:
    def build_more() -> Body:
        body = build()

        def run() -> None:
            _ = sorted(range(1000), reverse=True)
            time.sleep(0.001)
            body()

        return run

    return build_more


def _add(x: torch.Tensor) -> Body:
    return lambda: x.add_(1)


def _multiply(x: torch.Tensor) -> Body:
    return lambda: x.mul_(2)


def _matmul(x: torch.Tensor) -> Body:
    y = torch.empty(x.shape[0], x.shape[0], device=x.device, dtype=x.dtype)
    return lambda: torch.mm(x, x.t(), out=y)


def _matmul_in_tf32(x: torch.Tensor) -> Body:
    multiply = _matmul(x)

    def body() -> None:
        torch.backends.cuda.matmul.allow_tf32 = True
        multiply()
        torch.backends.cuda.matmul.allow_tf32 = False

    return body


def _attend(backend: SDPBackend) -> Callable[[torch.Tensor], Body]:
    def make_body(x: torch.Tensor) -> Body:
        def body() -> torch.Tensor:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(x, x, x)

        return body

    return make_body


def _step(**options: bool) -> Callable[[torch.Tensor], Body]:
    def make_body(x: torch.Tensor) -> Body:
        parameters = [x, x.clone()]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        step: Body = torch.optim.SGD(parameters, lr=0.1, **options).step
        return step

    return make_body


def _convolve(x: torch.Tensor) -> Body:
    weight = torch.ones(64, 64, 3, 3, device=x.device, dtype=x.dtype)
    return lambda: torch.nn.functional.conv2d(x, weight)


def _add_row(x: torch.Tensor) -> Body:
    row = torch.ones(x.shape[1], device=x.device)
    return lambda: x.add_(row)


def _add_matrix(x: torch.Tensor) -> Body:
    matrix = torch.ones_like(x)
    return lambda: x.add_(matrix)


def _copy_to_host(x: torch.Tensor) -> Body:
    y = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
    return lambda: y.copy_(x, non_blocking=True)


def _softmax(x: torch.Tensor) -> Body:
    return lambda: torch.softmax(x, 1)


def _softmax_of_transposed(x: torch.Tensor) -> Body:
    return lambda: torch.softmax(x.t(), 1)


def _copy(x: torch.Tensor) -> Body:
    y = torch.empty_like(x)
    return lambda: y.copy_(x)


def _sort(x: torch.Tensor) -> Body:
    return lambda: torch.sort(x)


_PLAIN = _launch()
_IMAGES = (8, 64, 28, 28)
_HEADS = (2, 8, 512, 64)

MUTATIONS = (
    Mutation("block size", _PLAIN, _launch(block=512)),
    Mutation("warps", _PLAIN, _launch(num_warps=8)),
    Mutation("one more loop iteration", _PLAIN, _launch(loops=4)),
    Mutation("a loop more in constant code", _launch(loops=1), _launch(loops=2)),
    Mutation("integer scalar", _PLAIN, _launch(count=_COUNT - 16)),
    Mutation("integer scalar no longer divisible by 16", _PLAIN, _launch(count=_COUNT - 1)),
    Mutation("floating-point scalar", _PLAIN, _launch(factor=1.25)),
    Mutation("element type", _PLAIN, _launch(dtype=torch.float16)),
    Mutation("element type of the same size", _PLAIN, _launch(dtype=torch.int32)),
    Mutation("alignment by 8 bytes", _PLAIN, _launch(shift=2)),
    Mutation("alignment by 4 bytes", _PLAIN, _launch(shift=1)),
    Mutation("more elements", _PLAIN, _launch(size=2 * _COUNT)),
    Mutation("larger allocation, same grid", _launch(size=1 << 23), _launch(size=1 << 24, block=2 * _BLOCK)),
    Mutation("in place", _PLAIN, _launch(in_place=True)),
    Mutation("a constant in the code", _PLAIN, _launch(_other_constant)),
    Mutation("an operation in the code", _PLAIN, _launch(_other_operation)),
    Mutation("no fused multiply-add", _PLAIN, _launch(enable_fp_fusion=False)),
    Mutation("fewer registers", _PLAIN, _launch(maxnreg=16)),
    Mutation("an extra launch", _PLAIN, _together(_PLAIN, _torch(_add))),
    Mutation("a launch less", _together(_PLAIN, _torch(_add)), _PLAIN),
    Mutation("launches in another order", _together(_PLAIN, _torch(_add)), _together(_torch(_add), _PLAIN)),
    Mutation("another operator", _torch(_add), _torch(_multiply)),
    Mutation("scalar of a library kernel", _torch(_add), _torch(lambda x: lambda: x.add_(2))),
    Mutation("library kernel, other size", _torch(_add), _torch(_add, _COUNT // 2)),
    Mutation("library kernel, misaligned", _torch(_add), _torch(lambda x: _add(x[1:]), _COUNT + 1)),
    Mutation("library kernel, other type", _torch(_add), _torch(_add, dtype=torch.float16)),
    Mutation("matrix sizes", _torch(_matmul, 512, 512), _torch(_matmul, 512, 768)),
    Mutation("matrix type", _torch(_matmul, 512, 512), _torch(_matmul, 512, 512, dtype=torch.bfloat16)),
    Mutation("stride", _torch(_softmax, 1024, 1024), _torch(_softmax_of_transposed, 1024, 1024)),
    Mutation("softmax width", _torch(_softmax, 1024, 1024), _torch(_softmax, 1024, 2048)),
    Mutation("bytes copied", _torch(_copy), _torch(_copy, _COUNT // 2)),
    Mutation("copy in place of a kernel", _torch(_copy), _torch(lambda x: lambda: x.clone().mul_(1))),
    Mutation("set to another size", _torch(lambda x: x.zero_), _torch(lambda x: x.zero_, 1024)),
    Mutation("sort, other length", _torch(_sort), _torch(_sort, _COUNT // 4)),
    Mutation("another stream", _together(_torch(_add), _torch(_multiply)), _on_stream),
    Mutation("a node more in a graph", _graph(4), _graph(5)),
    Mutation("a graph in place of launches", _together(*[_torch(_add)] * 4), _graph(4)),
    Mutation("transposed operand", _torch(_matmul, 512, 512), _torch(lambda x: lambda: torch.mm(x, x), 512, 512)),
    Mutation("stages", _multiply_tiles(stages=1), _multiply_tiles(stages=4)),
    Mutation("a compiler flag", _compiled(), _compiled("--maxrregcount=16")),
    Mutation("a constant in CUDA C", _compiled(factor="2.0f"), _compiled(factor="3.0f")),
    Mutation("another algorithm of a library", _torch(_matmul, 512, 512), _torch(_matmul_in_tf32, 512, 512)),
    Mutation(
        "another attention",
        _torch(_attend(SDPBackend.EFFICIENT_ATTENTION), *_HEADS, dtype=torch.bfloat16),
        _torch(_attend(SDPBackend.FLASH_ATTENTION), *_HEADS, dtype=torch.bfloat16),
    ),
    Mutation("an optimizer that is fused", _torch(_step(foreach=True)), _torch(_step(fused=True))),
    Mutation(
        "another memory format",
        _torch(_convolve, *_IMAGES),
        _torch(lambda x: _convolve(x.to(memory_format=torch.channels_last)), *_IMAGES),
    ),
    Mutation("an operand that is broadcast", _torch(_add_matrix, 1024, 1024), _torch(_add_row, 1024, 1024)),
    Mutation("copy to the host", _torch(_copy), _torch(_copy_to_host)),
    Mutation("nothing", _PLAIN, _PLAIN, changes_work=False),
    Mutation("comments and blank lines", _PLAIN, _launch(_commented), changes_work=False),
    Mutation("variables renamed", _PLAIN, _launch(_renamed), changes_work=False),
    Mutation("work on the host", _PLAIN, _with_host_work(_PLAIN), changes_work=False),
    Mutation("other values in the tensor", _torch(_add), _torch(lambda x: _add(x.fill_(7))), changes_work=False),
    Mutation("made anew", _torch(_softmax, 1024, 1024), _torch(_softmax, 1024, 1024), changes_work=False),
    Mutation("a wrapper in Python", _torch(_add), _together(_torch(_add)), changes_work=False),
    Mutation(
        "work on the host around a library",
        _torch(_matmul, 512, 512),
        _with_host_work(_torch(_matmul, 512, 512)),
        changes_work=False,
    ),
    Mutation("the same graph", _graph(4), _graph(4), changes_work=False),
    Mutation("kernel compiled again", _launch(_plain), _launch(_plain), changes_work=False),
    Mutation("the same sort", _torch(_sort), _torch(_sort), changes_work=False),
)
