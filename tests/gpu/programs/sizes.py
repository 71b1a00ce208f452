"""How large the work of `bodies` is, and what it launches. Known without torch."""

from __future__ import annotations

LENGTH = 1 << 20
CHAIN = 5
BLOCK = 1024
SPIN_CYCLES = 2_000_000
"""About a millisecond at any clock that a board of these days runs at."""
UP_BYTES, DOWN_BYTES = 8 << 20, 4 << 20

EXPECTED = {
    "backward": (2 * CHAIN, 0),
    "thread": (3, 0),
    "graph": (8, 0),
    "streams": (2, 0),
    "written_in_triton": (1, 0),
    "compiled": (1, 0),
    "copies": (0, 2),
}
"""Case -> kernels and memory copies of a round."""

PARTS = {
    ("backward", "forward"): CHAIN,
    ("backward", "backward"): CHAIN,
    ("graph", "additions"): 5,
    ("graph", "products"): 3,
}
"""Case and part -> kernels of a round."""

ROUNDS = 12
LONG_CHAIN = 1000
