"""Keeps the GPU busy until it is killed: the other user of a shared board."""

from __future__ import annotations

import torch


def main() -> None:
    x = torch.rand(4096, 4096, device="cuda", dtype=torch.bfloat16)
    while True:
        for _ in range(10):
            torch.matmul(x, x)
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
