"""What a kernel does, by a table of rules over its name. Pure.

The first rule whose pattern occurs in the name decides. The user's rules come before the built-in ones, and look at
the full name, too; the built-in ones do so only for kernels whose own name is a generic one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.kernel_names import is_generic, own_name, scoped_name
from pytest_nsight.model.shapes import COPY_KINDS, Shape

MEMORY = "memory"
COMMUNICATION = "communication"
OTHER = "other"
VECTORS = "GEMV"
COMPUTE_BOUND = frozenset({"GEMM", "attention", "convolution"})
"""Categories whose kernels reuse what they load, so that arithmetic usually limits them."""
MEMORY_BOUND = frozenset({VECTORS, "softmax", "normalisation", "optimizer", MEMORY, "reduction", "elementwise"})
"""Categories whose kernels load what they use once, so that the bandwidth of the memory usually limits them."""


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


# Inductor lists in a kernel's name all operators that its code comes from, those whose results it only reads, too
# (addmm, flash_attention). The prefix says what the code is: poi pointwise, red and per reductions, tem a template.
_MOVES = (
    "to|copy|clone|transpose|permute|view|unsafe|reshape|expand|cat|stack|slice|split|unbind|select|index|gather|"
    "embedding|squeeze|unsqueeze|as|strided|constant|pad|nd|full|zeros|ones|empty|fill|like|roll|repeat|"
    "detach|alias|new|put|flip|t"
)
# XLA names a kernel by the kind of its fusion and the operations at its root, or by its only operation. A loop
# computes each element on its own.
_XLA_MOVES = "transpose|slice|concatenate|gather|scatter|dynamic|update|pad|broadcast|copy|bitcast|reverse|iota"
_XLA_MATHS = (
    "add|subtract|multiply|divide|power|exponential(_minus_one)?|log(_plus_one)?|logistic|tanh|sine|cosine|sqrt|"
    "rsqrt|cbrt|negate|abs|sign|floor|ceil|clamp|select|compare|convert|maximum|minimum|remainder|and|or|not|xor|"
    "is_finite|erf"
)
_EXCEPTIONS = rf"""
memory=^triton_poi_fused(_+({_MOVES}))+$
elementwise=^triton_(poi|for)_
softmax=^triton_(red|per|spl)_\w*softmax
normalisation=^triton_(red|per|spl)_\w*((layer|rms|batch|group|instance)_norm|var_mean)
normalisation=^triton_(red|per|spl)_(?=\w*mean_)(?=\w*pow_)\w*rsqrt
reduction=^triton_(red|per|spl)_
attention=^triton_tem_\w*attention
convolution=^triton_tem_\w*conv
GEMM=^triton_tem_\w*mm|cijk_|fused_moe_kernel|\bfmoe_
memory=^(loop|input|wrapped)(_({_XLA_MOVES}))+(_fusion)?(_\d+)*$
elementwise=^loop_\w*fusion
elementwise=^wrapped_({_XLA_MATHS})(_\d+)*$
memory=(reshape|concat)_and_cache|store_kv|append_?paged_?kv|kv_indices
communication=cross_device_reduce|multimem_
reduction=pooling|(max|avg|average)_?pool
reduction=^(dot|nrm2|asum|i?am(ax|in))_kernel$
elementwise=^(axpy|scal|rotm?)_(kernel|64addr)
memory=^swap_kernel
"""
_TABLE = r"""
communication=\bnccl|[mr]s?ccl(Kernel)?_|nvshmem|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|deep_?ep
optimizer=adam|\bsgd|lamb\b|multi_tensor_apply|_foreach_|optimizer|lars\b|adagrad|rmsprop
attention=flash(?!infer)|fmha|attention|attn|(\b|_)mha|paged_|mla_|sdpa|softmax_?gemm|sage_fwd
attention=(prefill|decode)With\w{0,80}KVCache|MergeState
softmax=soft_?max
normalisation=layer_?norm|rms_?norm|batch_?norm|group_?norm|instance_?norm|\bbn_|norm_kernel|\bln_(fwd|bwd)|GammaBeta|welford
normalisation=RowwiseMoments|Compute(Backward)?FusedParams|ComputeInternalGradients
convolution=conv(?!e[rxy]|ect|ent)|implicit_|wgrad|dgrad|fprop|winograd|im2(d2)?col|col2im|[a-z]\d*cudnn_|igemm_(fwd|bwd|wrw)_gtc
convolution=bwd_(weight|data)|compute\w{0,40}OffsetsKernel|\bfft2d_[rc]2[rc]
GEMV=gemv|(?<![a-z])mat(rix)?_?vec(?!tor|\d)
GEMM=gemm|nvjet|cutlass(?!::\w+_t\b)|mat(rix)?_?mul|mul_mat|marlin|(\b|_)mm(\b|_)|xmma|cublas|\bbmm|split_?k|wgmma
GEMM=::linear|addmm|addbmm|::einsum
memory=copy|\bcpy_|memcpy|memset|(?<!pre)fill|transpose|permut|concat|\bcat_|CatArray|gather|scatter|index|(?<!rotary_)(?<!rotary)embedding
memory=aten::(to|clone|cat|stack|roll|repeat|reshape|(un)?flatten|zeros|ones|zero|full|new_\w+)(_like)?_?\b|\bsplit|\bpad|nonzero|contiguous|unfold|arange|triu|tril|upsample|n(chw|hwc)To
reduction=reduce|reduction|\bsum\b|\bmean\b|argmax|argmin|topk|sort|scan|cumsum|nll_?loss|cross_?entropy
reduction=segmented|DeviceCompact|histogram|\bnorm(?!al)
elementwise=elementwise|pointwise|k_bin_bcast|unrolled|gelu|silu|swiglu|relu|sigmoid|tanh|dropout|where|act_and_mul|quant
elementwise=rotary|\brope|bias|\b(add|mul|subtract|multiply|divide)(\b|_)|vec(tor)?_?add|distribution|random|philox|for_each|transform_kernel|\bcast|convert
elementwise=SubTensorOp|transform_config|aten::(add|mul|sub|div|exp|pow|sqrt|neg|clamp)
elementwise=aten::(a?(sin|cos|tan)h?|abs|sgn|sign|log(1p|2|10)?|floor|ceil|round|erf|rsqrt|reciprocal|square|bitwise_\w+|remainder|isnan|uniform|threshold|lerp|maximum|minimum|eq|ne|lt|le|gt|ge)(_backward)?_?\b
elementwise=^cupy_(add|subtract|multiply|(true_|floor_)?divide|negative|power|sqrt|square|exp|log|a?(sin|cos|tan)h?|abs\w*|maximum|minimum|clip|(not_)?equal|less|greater|logical|bitwise|invert|sign|remainder|is(nan|inf|finite)|floor|ceil|rint)(\b|_)
"""
_LIBRARIES = re.compile(r"\b(flashinfer|cutlass|cute)::")
"""Namespaces of libraries that have kernels of all categories."""
BUILT_IN = tuple(CategoryRule.parse(line) for line in _TABLE.split("\n") if line)
EXCEPTIONS = tuple(CategoryRule.parse(line) for line in _EXCEPTIONS.split("\n") if line)
"""Names whose words would mislead the rows of the table (bias, flash, xmma): these come before it."""


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
            known[key] = MEMORY if shape.kind in COPY_KINDS else _find(shape, rules)
        found.append(known[key])
    return tuple(found)


def _find(shape: Shape, rules: Sequence[CategoryRule]) -> str:
    full_name = shape.full_name or shape.name
    for rule in rules:
        if rule.pattern.search(shape.name) or rule.pattern.search(full_name):
            return rule.category
    # Template arguments and parameters may name anything (cutlass::bfloat16_t): they count only where the own name
    # is a generic one. Where another own name says nothing, its namespaces count. An operator has neither.
    own = own_name(shape.name)
    rest = full_name if shape.kind != "kernel" or is_generic(own) else _LIBRARIES.sub("", scoped_name(full_name))
    for name in (own, rest):
        for rule in (*EXCEPTIONS, *BUILT_IN):
            if rule.pattern.search(name):
                return rule.category
    return OTHER
