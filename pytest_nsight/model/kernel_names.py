"""Names of kernels, and of CUDA's functions, that stay the same from build to build and that a person can read.

Demanglers differ (``<unnamed>``, ``(anonymous namespace)``; ``[lambda() (instance 2)]``, ``{lambda()#2}``),
compilers number and hash the functions that they generate, and template arguments have hundreds of characters.
The normalised name keeps the function's own name and, for generic functions (elementwise, reduce, copy), what
they apply.
"""

from __future__ import annotations

import re

LONGEST = 8192
"""Characters of a name that are looked at; real ones stay under 4000."""

ANONYMOUS = re.compile(r"(?:<unnamed>|\(anonymous namespace\)|\{anonymous\}|\(anonymous class\)|_GLOBAL__N_\w*)::")

# Kernels whose own name does not say what they compute.
GENERIC = re.compile(
    r"""elementwise | ^reduce_(1Block_)?kernel | multi_tensor_apply | ^index_ | ^gpu_index | foreach
      | ^Kernel2?$ | ^device_kernel$ | ^kernel(_agent)?$ | ^_kernel_agent | scan | distribution | for_each
      | ^kentry$ | ^trampoline_kernel$ | DeviceReduce | DeviceScan | DeviceFor | DeviceSelect | transform_kernel""",
    re.VERBOSE,
)
# What a generic kernel is applied to: a functor or set of operations, the function that holds a lambda, or what
# CUTLASS keeps in its namespaces "kernel". cuDNN's copy of CUTLASS is a namespace cutlass_....
OPERATION = re.compile(
    r"""\b(?: (?P<functor> \w*Functor\w* | \w+_functor\b | \w+Ops\b | \w+Op\b )
      | (?P<function> \w+ ) (?: <[^<>()]{0,200}> )? \( [^()]{0,200} \) (?:\s*const)? :: [\[{]lambda
      | (?P<standard> std::(?:plus|minus|multiplies|divides) )
      | (?P<kernel> cutlass_\w+ (?!\w|::) | (?<=\bkernel::) \w+ (?!\w|::) | Gemm\w* | Conv\w* | flash\w+ ) )""",
    re.VERBOSE,
)
# Adapters around the operation proper.
ADAPTERS = frozenset(
    {
        "AUnaryFunctor", "BUnaryFunctor", "UnaryFunctor", "BinaryFunctor", "ReduceOp", "gpu_kernel_impl",
        "gpu_kernel_impl_nocast", "gpu_kernel", "gpu_kernel_with_index", "gpu_index_kernel",
        "opmath_gpu_kernel_with_scalars", "operator", "launch_legacy_kernel",
    }
)  # fmt: skip

GENERATED = re.compile(r"^(triton_|cute_|kernel_cutlass_|cudnn_generated_|fused_)")
NUMBER = re.compile(r"_\d+$")
HASH = re.compile(r"_(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}$")
SPECIALISATION = re.compile(r"_0[\dce]*d[\dcde]*$")
"""Triton up to 2 lists its arguments from number 0 on: d divisible by 16, c constant, e by 8."""
CUTE_ARGUMENTS = re.compile(r"(?:_+object_at_|_tensorptr|_Tensor(?:gmem|smem)|_CopyAtom|_TiledM)\w*$")
MANGLED = re.compile(r"_ZN?K?(?=L?\d)")
LENGTH = re.compile(r"L?(\d{1,4})")
CLONE = re.compile(r"(?:\.(?:constprop|isra|part|cold|kd|clone)(?:\.\d+)?)+$")

LIBRARY = re.compile(
    r"^(nvjet|cutlass\d*|ampere|volta|turing|maxwell|hopper|blackwell|sm\d+|cudnn|xmma|gemm|gemmk1|magma|"
    r"void_cutlass)_|gemm|xmma|implicit_convolve|fprop|dgrad|wgrad"
)
TILE = re.compile(
    r"^((tile(size)?|warp(size|group|groupsize)?|cga|sliced|cluster)?(\d+x\d+(x\d+)?)?|\d+|stages?\d*|[vh]|bz|"
    r"coop[AB]?|2cta|ldg\d+|align[a-z]?\d+|split[kK]\w*|bias|knob|kernel\d*|ws|pingpong|cooperative|"
    r"warpspecialized|execute|interior|swizzle\d*)$"
)
"""Parts of a library's kernel name that only say how the work is cut up."""


def normalise(full_name: str) -> str:
    """The name without what differs between builds.

    Args:
        full_name: as a profiler gives it, demangled or not.

    Returns:
        For example "vectorized_elementwise_kernel(MulFunctor)", "softmax_warp_forward",
        "triton_poi_fused_add_mul", or the name as it is where nothing needs to go.
    """
    text = ANONYMOUS.sub("", full_name[:LONGEST]).strip()
    head, arguments = _split_templates(text)
    words = head.split()
    own = words[-1].rsplit("::", 1)[-1] if words else ""
    if not own:
        return text or full_name[:LONGEST].strip()
    own = _drop_generated(own)
    operation = _find_operation(arguments) if GENERIC.search(own) else ""
    if operation.startswith("cutlass_"):
        return operation
    return f"{own}({operation})" if operation else own


def own_name(name: str) -> str:
    """A normalised name, or the function's own name without its scopes and arguments where ``name`` is mangled.

    Profilers of AMD devices leave names such as ``_ZN5aiter24add_rmsnorm_quant_kernelIDF16bE`` as they are.
    """
    start = MANGLED.match(name)
    at, own = (start.end() if start else len(name)), ""
    while length := LENGTH.match(name, at):
        at = length.end() + int(length[1])
        own = name[length.end() : at] if at <= len(name) else ""
    return own or name


def scoped_name(full_name: str) -> str:
    """The function's own name with its namespaces, without template arguments and parameters.

    Args:
        full_name: as a profiler gives it.
    """
    words = _split_templates(ANONYMOUS.sub("", full_name[:LONGEST]).strip())[0].split()
    return words[-1] if words else ""


def is_generic(name: str) -> bool:
    """Whether an own name leaves to template arguments what the kernel computes."""
    return GENERIC.search(name.partition("(")[0]) is not None


def family(name: str) -> str:
    """What all tile variants of a library's kernel have in common.

    An autotuner's or a heuristic's choice of another tile leaves the family as it is; another operation, data
    type, architecture or layout of the operands does not.

    Args:
        name: normalised.

    Returns:
        For example "nvjet_sm90_tst_TNT" for "nvjet_sm90_tst_128x128_64x6_2x1_v_bz_TNT"; the name itself for a
        kernel that is not from a library of matrix products or convolutions.
    """
    if not LIBRARY.search(name) or "(" in name:
        return name
    parts = name.split("_")
    # The number right behind "cutlass" is the architecture.
    first = 2 if parts[0] == "cutlass" else 1
    return "_".join([*parts[:first], *(part for part in parts[first:] if not TILE.match(part))])


def _split_templates(text: str) -> tuple[str, str]:
    """The name without template arguments and parameters, and what stood between its outermost brackets."""
    head: list[str] = []
    arguments: list[str] = []
    depth = parentheses = 0
    text = text.replace("operator()", "operator ").replace("operator ()()", "operator ")
    for at, sign in enumerate(text):
        is_arrow = sign == ">" and at and text[at - 1] == "-"
        if depth and sign in "()":
            parentheses = max(parentheses + (1 if sign == "(" else -1), 0)
        elif parentheses:
            # In "enable_if<((8)>(0))>" the first > compares.
            pass
        elif sign in "<[{":
            depth += 1
        elif sign in ">]}" and not is_arrow:
            depth -= 1
            if depth < 0:
                return text, ""
            if not depth:
                continue
        elif sign == "(" and not depth:
            break
        (arguments if depth else head).append(sign)
    return ("".join(head), "".join(arguments)) if not depth else (text, "")


def _drop_generated(name: str) -> str:
    """Drop what compilers append: clone marks, hashes, specialisations, and numbers of generated kernels."""
    name = CUTE_ARGUMENTS.sub("", CLONE.sub("", name)) or name
    before = None
    while name != before:
        before = name
        name = HASH.sub("", name) or name
        name = SPECIALISATION.sub("", name) or name
        if GENERATED.match(name) and not name.startswith("cudnn_"):
            name = NUMBER.sub("", name) or name
    return name


def _find_operation(arguments: str) -> str:
    """The first operation that is not just an adapter, with the standard operator it is given, if any."""
    adapter, standard, found = "", "", ""
    for match in OPERATION.finditer(arguments):
        name = match.group(match.lastgroup or 0)
        if match.lastgroup == "standard":
            standard = standard or name
        elif name in ADAPTERS:
            adapter = adapter or name
        else:
            found = found or name
    if not found:
        return standard or (adapter if adapter.endswith("Functor") else "")
    return f"{found}, {standard}" if standard else found
