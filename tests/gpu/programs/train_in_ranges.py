"""Trains a small model in ranges, with device memory that grows, is freed and grows again.

nsys profile --trace=cuda,nvtx --cuda-memory-usage=true python tests/gpu/programs/train_in_ranges.py

It made recordings of tests/data/recordings; `PYTORCH_CUDA_ALLOC_CONF` chose the allocator.
"""

from __future__ import annotations

import ctypes

import torch


def main() -> None:
    layers = [torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    pinned = torch.randn(4096, 1024).pin_memory()
    for step in range(6):
        with torch.cuda.nvtx.range(f"train_step#{step}"):
            with torch.cuda.nvtx.range("load"):
                batch = pinned.to("cuda", non_blocking=True)
            with torch.cuda.nvtx.range("forward"):
                loss = model(batch).square().mean()
            with torch.cuda.nvtx.range("backward"):
                loss.backward()
            with torch.cuda.nvtx.range("optimizer"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        loss.item()
    del batch, loss
    torch.cuda.empty_cache()
    with torch.cuda.nvtx.range("evaluate"):
        scores = torch.empty(8192, 8192, device="cuda")
        scores.fill_(1.0)
        for _ in range(3):
            with torch.cuda.nvtx.range("attempt"):
                softmax = torch.softmax(scores, -1)
                del softmax
                torch.cuda.empty_cache()
    runtime = ctypes.CDLL(None)
    if hasattr(runtime, "cudaMallocManaged"):
        pointer = ctypes.c_void_p()
        print("managed", runtime.cudaMallocManaged(ctypes.byref(pointer), ctypes.c_size_t(64 << 20), 1))
    torch.cuda.synchronize()
    print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), torch.cuda.mem_get_info())


if __name__ == "__main__":
    main()
