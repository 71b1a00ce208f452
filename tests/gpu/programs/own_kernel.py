"""A kernel that tests/gpu/test_identity.py copies beside its cases and changes."""

import triton
import triton.language as tl

LOOPS = 3
BLOCK = 1024


@triton.jit
def _repeat_kernel(x_ptr, y_ptr, n_elements, LOOPS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0)
    for _ in tl.static_range(LOOPS):
        value = tl.sin(value) + 1.0
    tl.store(y_ptr + offsets, value, mask=offsets < n_elements)


def repeat(x, y, loops=LOOPS, elements=None):
    """Writes to `y` what comes of the first `elements` of `x`, all by default; the grid covers all of `x`."""
    grid = (triton.cdiv(x.numel(), BLOCK),)
    _repeat_kernel[grid](x, y, elements or x.numel(), LOOPS=loops, BLOCK=BLOCK)
