"""What programs do with torch itself: compile, graphs, autotuners, loaders, copies, sorting, process groups."""

# ruff: noqa: PLC0415 - a program's packages are imported by its own case alone

from __future__ import annotations

from contextlib import ExitStack

import torch
import torch.nn.functional as F
from torch import nn

from tests.gpu.foreign.programs.registry import SEED, Body, integers, normal, program, sized, train

TORCH = "PyTorch"


def _mlp(device: str, width: int) -> nn.Sequential:
    torch.manual_seed(SEED)
    layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.LayerNorm(width))
    return layers.to(device, torch.bfloat16)


@program(TORCH, needs_gpu=True)
def compiled_mlp(device: str, stack: ExitStack) -> Body:
    """torch.compile, forward and backward."""
    model = _mlp(device, 1024)
    fused, x = torch.compile(model), normal(device, 4096, 1024)
    return train(model, lambda: fused(x))


@program(TORCH, needs_gpu=True)
def compiled_with_graphs(device: str, stack: ExitStack) -> Body:
    """torch.compile with CUDA graphs of its own."""
    model = _mlp(device, 512).eval()
    fused, x = torch.compile(model, mode="reduce-overhead"), normal(device, 256, 512)

    @torch.no_grad()
    def body() -> torch.Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        return fused(x)

    return body


@program(TORCH, needs_gpu=True)
def compiled_max_autotune(device: str, stack: ExitStack) -> Body:
    """torch.compile that times Triton's matrix products against the library's; what wins may differ by process."""
    x, weight = normal(device, 2048, 1024), normal(device, 1024, 1024)
    fused = torch.compile(lambda a, b: F.relu(a @ b), mode="max-autotune-no-cudagraphs")
    return lambda: fused(x, weight)


@program(TORCH, needs_gpu=True)
def captured_training_step(device: str, stack: ExitStack) -> Body:
    """A CUDA graph of forward, backward and a step of Adam."""
    model = _mlp(device, 512).float()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, capturable=True)
    x = normal(device, 1024, 512, dtype=torch.float32)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    # The graph holds addresses only: model, optimizer and input must live as long as the body.
    kept = (model, optimizer, x)
    return lambda: graph.replay() or kept


@program(TORCH)
def convolution_with_cudnn_benchmark(device: str, stack: ExitStack) -> Body:
    """cudnn times its algorithms in every process and may choose another one."""
    before = torch.backends.cudnn.benchmark
    stack.callback(setattr, torch.backends.cudnn, "benchmark", before)
    torch.backends.cudnn.benchmark = True
    size = sized(device, 56, 8)
    x, weight = normal(device, 32, 64, size, size), normal(device, 128, 64, 3, 3)
    return lambda: F.conv2d(x, weight, padding=1)


@program(TORCH)
def attention_with_gradients(device: str, stack: ExitStack) -> Body:
    """The library's attention, forward and backward."""
    made = normal(device, 3, 4, 16, sized(device, 1024, 16), 64)
    q, k, v = (one.clone().requires_grad_() for one in made)

    def body() -> tuple[torch.Tensor, ...]:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.autograd.grad(out, [q, k, v], torch.ones_like(out))

    return body


@program(TORCH, varies=True)
def random_routing(device: str, stack: ExitStack) -> Body:
    """A mixture of experts whose tokens are routed at random: an expert without tokens launches nothing."""
    torch.manual_seed(SEED)
    experts = nn.ModuleList(nn.Linear(256, 256, device=device, dtype=torch.bfloat16) for _ in range(16))
    x = normal(device, 24, 256)
    generator = torch.Generator(device).manual_seed(SEED)

    @torch.no_grad()
    def body() -> torch.Tensor:
        chosen = torch.randint(len(experts), (len(x),), generator=generator, device=device)
        out = torch.zeros_like(x)
        for index, expert in enumerate(experts):
            (mine,) = torch.nonzero(chosen == index, as_tuple=True)
            if len(mine):
                out[mine] = expert(x[mine])
        return out

    return body


@program(TORCH, metric="copy", needs_gpu=True)
def pinned_copies(device: str, stack: ExitStack) -> Body:
    """64 MB up and down, from and to pinned memory."""
    up, down = (torch.ones(1 << 24, pin_memory=True) for _ in range(2))
    x = torch.empty(1 << 24, device=device)

    def body() -> None:
        x.copy_(up, non_blocking=True)
        down.copy_(x, non_blocking=True)

    return body


@program(TORCH)
def data_loader_with_workers(device: str, stack: ExitStack) -> Body:
    """A batch of a loader with two worker processes goes through a model."""
    model = _mlp(device, 256).float()
    data = torch.utils.data.TensorDataset(normal("cpu", 4096, 256, dtype=torch.float32))
    loader = torch.utils.data.DataLoader(
        data, batch_size=64, num_workers=2, pin_memory=device == "cuda", persistent_workers=True
    )
    batches = iter(loader)

    def forward() -> torch.Tensor:
        nonlocal batches
        try:
            (batch,) = next(batches)
        except StopIteration:
            batches = iter(loader)
            (batch,) = next(batches)
        return model(batch.to(device, non_blocking=True))

    return train(model, forward)


@program(TORCH)
def sort_and_unique(device: str, stack: ExitStack) -> Body:
    """Radix sort of a million keys, and what is unique among them, which waits for the device."""
    keys = integers(device, 1 << 16, sized(device, 1 << 20, 1 << 10))
    return lambda: (torch.sort(keys), torch.unique(keys))


@program(TORCH)
def scatter_and_embedding(device: str, stack: ExitStack) -> Body:
    """An embedding and its gradient, which adds by index, and a scatter with a maximum."""
    rows = sized(device, 1 << 15, 1 << 8)
    torch.manual_seed(SEED)
    table = nn.Embedding(rows, 128, device=device)
    index = integers(device, rows, sized(device, 1 << 16, 1 << 8))

    def forward() -> torch.Tensor:
        found = table(index)
        return torch.zeros_like(found).scatter_reduce(0, index[:, None].expand(-1, 128) % len(found), found, "amax")

    return train(table, forward)


@program(TORCH)
def top_of_a_softmax(device: str, stack: ExitStack) -> Body:
    """Sampling: softmax, the 50 largest, cumulative sums, a draw."""
    logits = normal(device, sized(device, 64, 4), 32_000, dtype=torch.float32)
    generator = torch.Generator(device).manual_seed(SEED)

    @torch.no_grad()
    def body() -> torch.Tensor:
        values, places = torch.topk(logits.softmax(-1), 50)
        values = values.masked_fill(values.cumsum(-1) > 0.9, 0.0)
        return places.gather(1, torch.multinomial(values + 1e-9, 1, generator=generator))

    return body


@program(TORCH, needs_gpu=True)
def process_group(device: str, stack: ExitStack) -> Body:
    """A training step of DistributedDataParallel in a group of one, through NCCL."""
    from torch import distributed

    distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1)
    stack.callback(distributed.destroy_process_group)
    model = nn.parallel.DistributedDataParallel(_mlp(device, 512), device_ids=[torch.cuda.current_device()])
    x = normal(device, 1024, 512)
    return train(model, lambda: model(x))
