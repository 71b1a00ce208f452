"""What a kernel does, by a table of rules over its name. Pure.

The first rule whose pattern occurs in the name decides. The user's rules come before the built-in ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.trace import COPY_KINDS
from pytest_nsight.model.values import Shape

MEMORY = "memory"
COMMUNICATION = "communication"
OTHER = "other"
COMPUTE_BOUND = frozenset({"GEMM", "attention", "convolution"})
"""Categories whose kernels reuse what they load, so that arithmetic usually limits them."""


@dataclass(frozen=True, slots=True)
class CategoryRule:
    """One row of the rule table.

    Attributes:
        category: the name of the category.
        pattern: a regular expression, searched without regard to case in the full name and the normalised name.
    """

    category: str
    pattern: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> CategoryRule:
        """The rule in a text such as ``MoE=router|expert``.

        Raises:
            UsageError: the text has no ``=``, no name, or its pattern is no regular expression.
        """
        category, separator, pattern = text.partition("=")
        if not (separator and category.strip() and pattern.strip()):
            raise UsageError(f"{text!r} is no category rule; write NAME=PATTERN, for example MoE=router|expert")
        try:
            return cls(category.strip(), re.compile(pattern.strip(), re.IGNORECASE))
        except re.error as error:
            raise UsageError(f"the pattern of the category rule {text!r} is wrong ({error}); correct it") from None


_TABLE = r"""
communication=\bnccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|deep_?ep
optimizer=adam|\bsgd|lamb\b|multi_tensor_apply|_foreach_|optimizer|lars\b|adagrad|rmsprop
attention=flash|fmha|attention|attn|\bmha|paged_|mla_|sdpa|softmax_gemm
softmax=softmax
normalisation=layer_?norm|rms_?norm|batch_?norm|group_?norm|instance_?norm|\bbn_|norm_kernel|GammaBeta|welford
convolution=conv|implicit_|wgrad|dgrad|fprop|winograd|im2col
GEMM=gemm|gemv|nvjet|cutlass|matmul|\bmm\b|xmma|cublas|dot_kernel|\bbmm|split_?k|wgmma|_mm_|::linear|addmm
memory=copy|memcpy|memset|fill|transpose|permute|concat|\bcat_|CatArray|gather|scatter|index|embedding
memory=\bsplit|\bpad|nonzero|contiguous|unfold|arange|triu|tril
reduction=reduce|reduction|\bsum\b|\bmean\b|argmax|argmin|topk|sort|scan|cumsum|nll_?loss|cross_?entropy
reduction=segmented|histogram|\bnorm
elementwise=elementwise|pointwise|triton_poi|_poi_|unrolled|gelu|silu|swiglu|relu|sigmoid|tanh|dropout|where
elementwise=rotary|\brope|bias|\badd\b|\bmul\b|distribution|random|philox|for_each|transform_kernel|\bcast
elementwise=aten::(add|mul|sub|div|exp|pow|sqrt|neg|clamp)
"""
BUILT_IN = tuple(CategoryRule.parse(line) for line in _TABLE.split("\n") if line)


def categorise(shapes: Sequence[Shape], rules: Sequence[CategoryRule] = ()) -> tuple[str, ...]:
    """The category of each shape; "memory" for copies and sets, "other" where no rule applies.

    Args:
        shapes: the distinct ways of launching.
        rules: the user's rules, which come first.
    """
    known: dict[tuple[str, str], str] = {}
    found = []
    for shape in shapes:
        key = (shape.kind, shape.full_name or shape.name)
        if key not in known:
            known[key] = MEMORY if shape.kind in COPY_KINDS else _find(shape, (*rules, *BUILT_IN))
        found.append(known[key])
    return tuple(found)


def _find(shape: Shape, rules: Sequence[CategoryRule]) -> str:
    # The normalised name says what a generic kernel computes; template arguments may name anything.
    for name in dict.fromkeys((shape.name, shape.full_name)):
        for rule in rules:
            if rule.pattern.search(name):
                return rule.category
    return OTHER
