"""How much tests/gpu/programs/perf_two_gpus.py does; imported by what runs it, without torch."""

ROUNDS = 6
CASES = 4
RANKS = 2
ELEMENTS = 1 << 20
CHILD_ROUNDS = 2
CHILD_LAUNCHES = 7
