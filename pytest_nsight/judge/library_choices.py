"""Kernels that cuDNN, Inductor and XLA choose by their times, known by their full names.

The two compilers choose a kernel for each product (of matrices, or a convolution): a library's, or one that they
generate. That one takes in what is launched on its own beside the library's, and either may leave a reduction. So
two choices for the same program launch equally many products, and little else differs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

from pytest_nsight.model.identity import CUDNN, INDUCTOR, XLA
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.values import RunSummary

_CONVOLUTION = re.compile(
    r"cudnn|^(?:void )?(?:sm\d+|volta|turing|ampere|hopper)_(?:\w*_)?(?:fprop|dgrad|wgrad|g?cgemm)_"
    r"|^void (?:(?:ex|im)plicit_convolve_sgemm|[dw]grad\w*_engine|im2col4d_kernel|fft2d_[cr]2[cr]_\w+"
    r"|flip_filter|compute_gemm_pointers|DSE::\w+)\b"
)
"""cuDNN's kernels for convolutions, some by Fourier transforms; not all of them contain "cudnn".

Other matrix products are left out: cuBLAS has kernels of the same names, which change with the program's settings.
"""

_NOT_BY_TIME = re.compile(r"sdpa|attention|fmha|batch_?norm|\bbn_|rnn", re.IGNORECASE)
"""Other work of cuDNN, for which it chooses kernels by rules, not by time."""

_CUBLAS = re.compile(
    r"^nvjet_|^(?:void )?(?:sm\d+|volta|turing|ampere|hopper|blackwell)_\w*gemm"
    r"|^(?:void cutlass::\w+<)?cutlass_\d+_\w*gemm"
    r"|^void (?:gemmk1|gemmSN_\w+|gemv2[NT]|gemvNSP|dot)_kernel\w*<|\binternal::gemvx::kernel<"
)
"""Products of cuBLAS, which takes some kernels from CUTLASS."""

_SPLIT_K = re.compile(r"\bsplitK_?reduce", re.IGNORECASE)

_TEMPLATE = {INDUCTOR: re.compile(r"^triton_tem_fused"), XLA: re.compile(r"^(?:gemm_fusion|triton_gemm)_")}
"""Products that a compiler generates."""

_GENERATED = {
    INDUCTOR: re.compile(r"^triton_(?:coo|for|per|poi|red|spl|unk)_fused"),
    XLA: re.compile(r"^(?:[a-z]+_)*fusion(?:_\d+)?$|^wrapped_\w+$"),
}
"""Other kernels that a compiler generates."""

_NUMBER = re.compile(r"_\d+$")
_BESIDE_A_PRODUCT = 2
"""Kernels that come or go with a product: what is computed before or after it, or a reduction in another shape."""


def is_chosen(by: str, shape: Shape) -> bool:
    """Whether a shape, with its full name, is a kernel that this one of CHOOSERS chooses, or makes beside one."""
    if by == CUDNN:
        return _is_convolution(shape)
    return is_product(by, shape) or _is_helper(by, shape)


def is_product(by: str, shape: Shape) -> bool:
    """Whether a shape, with its full name, is a product that a compiler, INDUCTOR or XLA, may have chosen."""
    name = shape.full_name
    is_kernel = shape.kind == "kernel"
    return (is_kernel and bool(_TEMPLATE[by].search(name) or _CUBLAS.search(name))) or _is_convolution(shape)


def differ_by_products(one: RunSummary, other: RunSummary, by: str, explained: Collection[str]) -> bool:
    """Whether two runs of the same programs launch the same but for what a compiler chose, or the same at all.

    Args:
        one: a run.
        other: another run.
        by: the compiler, INDUCTOR or XLA.
        explained: normalised names of kernels that something else explains.
    """
    before, now = (_count(run, by, explained) for run in (one, other))
    lost, gained = before - now, now - before
    products = _total(lost, lambda shape: is_product(by, shape))
    if products != _total(gained, lambda shape: is_product(by, shape)):
        return False
    if by == INDUCTOR and products and not any(_TEMPLATE[by].search(shape.full_name) for shape in lost | gained):
        # Without a template there is nothing that Inductor may choose in place of a library's kernel.
        return False
    changes = lost + gained
    helpers = _total(changes, lambda shape: _is_helper(by, shape))
    # Some products need a cleared workspace.
    cleared = _total(changes, lambda shape: shape.kind == "memset")
    is_all = products * 2 + helpers + cleared == changes.total()
    return is_all and helpers <= _BESIDE_A_PRODUCT * products and cleared <= products


def _count(run: RunSummary, by: str, explained: Collection[str]) -> Counter[Shape]:
    counts: Counter[Shape] = Counter()
    for use in run.shapes:
        if use.count and use.shape.name not in explained:
            shape = replace(use.shape, name="", registers=0, shared_bytes=0)
            if _is_helper(by, shape):
                # A choice renumbers what the compiler generates.
                shape = replace(shape, full_name=_NUMBER.sub("", shape.full_name))
            counts[shape] += use.count
    return counts


def _total(counts: Counter[Shape], is_counted: Callable[[Shape], bool]) -> int:
    return sum(count for shape, count in counts.items() if is_counted(shape))


def _is_convolution(shape: Shape) -> bool:
    name = shape.full_name
    return shape.kind == "kernel" and bool(_CONVOLUTION.search(name)) and not _NOT_BY_TIME.search(name)


def _is_helper(by: str, shape: Shape) -> bool:
    name = shape.full_name
    # XLA names its products as it names other fusions.
    is_generated = _GENERATED[by].search(name) and not _TEMPLATE[by].search(name)
    return shape.kind == "kernel" and bool(is_generated or _SPLIT_K.search(name))
