"""Whole models: transformers, timm, torchvision, einops, rotary-embedding-torch, torch-geometric, gpytorch."""

# ruff: noqa: PLC0415 - a program's packages are imported by its own case alone

from __future__ import annotations

from contextlib import ExitStack

import torch
import torch.nn.functional as F
from torch import nn

from tests.gpu.foreign.programs.registry import SEED, Body, integers, normal, program, sized, train


def _small(device: str) -> dict[str, int]:
    return {
        "hidden_size": sized(device, 512, 32),
        "intermediate_size": sized(device, 1408, 64),
        "num_hidden_layers": sized(device, 4, 1),
        "num_attention_heads": 8,
        "vocab_size": 4096,
    }


@program("transformers", "transformers")
def transformers_llama_step(device: str, stack: ExitStack) -> Body:
    """Loss and gradients of a small Llama with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(SEED)
    config = LlamaConfig(**_small(device), num_key_value_heads=4, use_cache=False)
    model = LlamaForCausalLM(config).to(device, torch.bfloat16)
    tokens = integers(device, 4096, 2, sized(device, 1024, 16))

    def body() -> torch.Tensor:
        model.zero_grad(set_to_none=True)
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        return loss.detach()

    return body


@program("transformers", "transformers", varies=True)
def transformers_mixtral_random_routing(device: str, stack: ExitStack) -> Body:
    """Other tokens in every round, so that other experts get work."""
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(SEED)
    config = MixtralConfig(
        **_small(device), num_key_value_heads=4, num_local_experts=16, num_experts_per_tok=2, use_cache=False
    )
    model = MixtralForCausalLM(config).to(device, torch.bfloat16).eval()
    generator = torch.Generator(device).manual_seed(SEED)

    @torch.no_grad()
    def body() -> torch.Tensor:
        tokens = torch.randint(4096, (1, 64), generator=generator, device=device)
        return model(input_ids=tokens).logits

    return body


@program("timm", "timm", "torchvision")
def timm_vision_transformer(device: str, stack: ExitStack) -> Body:
    """Forward of a small vision transformer."""
    import timm

    torch.manual_seed(SEED)
    model = timm.create_model("vit_tiny_patch16_224").to(device, torch.bfloat16).eval()
    images = normal(device, sized(device, 32, 1), 3, 224, 224)

    @torch.no_grad()
    def body() -> torch.Tensor:
        return model(images)

    return body


@program("torchvision", "torchvision")
def torchvision_resnet_step(device: str, stack: ExitStack) -> Body:
    """Forward and backward of ResNet-18 with cudnn.benchmark, which times algorithms in every process."""
    from torchvision.models import resnet18

    before = torch.backends.cudnn.benchmark
    stack.callback(setattr, torch.backends.cudnn, "benchmark", before)
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(SEED)
    model = resnet18().to(device).to(memory_format=torch.channels_last)
    images = normal(device, sized(device, 32, 1), 3, 224, 224, dtype=torch.float32)
    return train(model, lambda: model(images.contiguous(memory_format=torch.channels_last)))


@program("einops", "einops")
def einops_attention(device: str, stack: ExitStack) -> Body:
    """Attention whose heads are split and merged by rearrange, with gradients."""
    from einops import rearrange
    from einops.layers.torch import Rearrange

    width = sized(device, 1024, 64)
    torch.manual_seed(SEED)
    project = nn.Linear(width, 3 * width, device=device, dtype=torch.bfloat16)
    split = Rearrange("b t (three h d) -> three b h t d", three=3, h=8)
    x = normal(device, 4, sized(device, 1024, 16), width)

    def forward() -> torch.Tensor:
        q, k, v = split(project(x))
        return rearrange(F.scaled_dot_product_attention(q, k, v), "b h t d -> b t (h d)")

    return train(project, forward)


@program("rotary-embedding-torch", "rotary_embedding_torch", "einops")
def rotary_embedding(device: str, stack: ExitStack) -> Body:
    """Queries and keys are rotated: many small elementwise launches."""
    from rotary_embedding_torch import RotaryEmbedding

    rotary = RotaryEmbedding(dim=64).to(device)
    q, k = normal(device, 2, 4, 16, sized(device, 2048, 16), 64)

    @torch.no_grad()
    def body() -> tuple[torch.Tensor, torch.Tensor]:
        return rotary.rotate_queries_or_keys(q), rotary.rotate_queries_or_keys(k)

    return body


@program("torch-geometric", "torch_geometric")
def graph_convolution(device: str, stack: ExitStack) -> Body:
    """Two layers of graph convolution, which gathers and scatters by edges, with gradients."""
    from torch_geometric.nn import GCNConv

    torch.manual_seed(SEED)
    nodes = sized(device, 20_000, 50)
    first, second = GCNConv(64, 128).to(device), GCNConv(128, 64).to(device)
    edges = integers(device, nodes, 2, 10 * nodes)
    x = normal(device, nodes, 64, dtype=torch.float32)
    return train(nn.ModuleList([first, second]), lambda: second(first(x, edges).relu(), edges))


@program("gpytorch", "gpytorch")
def gaussian_process(device: str, stack: ExitStack) -> Body:
    """The marginal likelihood of an exact Gaussian process and its gradients: Cholesky factorisation."""
    import gpytorch

    class Model(gpytorch.models.ExactGP):
        def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: nn.Module) -> None:
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> object:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x = normal(device, sized(device, 512, 16), 2, dtype=torch.float32)
    y = x.sum(1).sin()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(device)
    model = Model(x, y, likelihood).to(device).train()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    return train(model, lambda: marginal(model(x), y))
