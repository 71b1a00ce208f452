"""Refuses what a kernel cannot do, by the name of the argument, before a wrong result can exist."""

from __future__ import annotations

import torch

DTYPES = (torch.bfloat16, torch.float32)
"""Element types that every kernel here supports."""


def check_tensor(name: str, tensor: torch.Tensor, dimensions: int | None = None) -> None:
    """Refuse a tensor that no kernel here can work on.

    Args:
        name: the argument's name, for the message.
        tensor: the argument.
        dimensions: how many dimensions it must have, None for any number above zero.

    Raises:
        TypeError: not a tensor, or neither bf16 nor fp32.
        ValueError: on another device than CUDA or the CPU, not contiguous, or of another rank.
    """
    _check_type(name, tensor)
    if tensor.dtype not in DTYPES:
        raise TypeError(f"{name} is {tensor.dtype}, torch.bfloat16 or torch.float32 is needed")
    _check_place(name, tensor)
    if dimensions is not None and tensor.dim() != dimensions:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, {dimensions} dimensions are needed")
    if tensor.dim() == 0 or tensor.shape[-1] == 0:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, rows of at least one element are needed")


def check_same(name: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    """Refuse a tensor that differs from another one in shape, element type or device.

    Raises:
        TypeError: other element type.
        ValueError: other shape or device.
    """
    check_tensor(name, tensor)
    if tensor.shape != other.shape:
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}, {tuple(other.shape)} is needed to match {other_name}"
        )
    _check_kin(name, tensor, other_name, other)


def check_shape(
    name: str, tensor: torch.Tensor, shape: tuple[int, ...], other_name: str, other: torch.Tensor
) -> None:
    """Refuse a tensor that has not the given shape, or another element type or device than another one.

    Raises:
        TypeError: other element type.
        ValueError: other shape or device.
    """
    check_tensor(name, tensor)
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, {shape} is needed to go with {other_name}")
    _check_kin(name, tensor, other_name, other)


def check_indices(name: str, tensor: torch.Tensor, length: int, device: torch.device) -> None:
    """Refuse a tensor that is not a vector of `length` int64 indices on `device`.

    Raises:
        TypeError: not a tensor, or not int64.
        ValueError: other shape or device, or not contiguous.
    """
    _check_type(name, tensor)
    if tensor.dtype != torch.int64:
        raise TypeError(f"{name} is {tensor.dtype}, torch.int64 is needed")
    if tuple(tensor.shape) != (length,):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, {(length,)} is needed")
    _check_place(name, tensor)
    if tensor.device != device:
        raise ValueError(f"{name} is on {tensor.device}, {device} is needed")


def check_overwritable(name: str, tensor: torch.Tensor) -> None:
    """Refuse a tensor whose gradient is wanted where its elements are to be written over.

    Raises:
        ValueError: it requires grad.
    """
    if tensor.requires_grad:
        raise ValueError(f"{name} requires grad and would be written over; pass {name}.detach()")


def check_at_most(name: str, tensor: torch.Tensor, width: int) -> None:
    """Refuse rows longer than `width` elements.

    Raises:
        ValueError: the last dimension is longer.
    """
    if tensor.shape[-1] > width:
        raise ValueError(f"{name} has rows of {tensor.shape[-1]} elements, at most {width} are supported")


def check_multiple(name: str, tensor: torch.Tensor, factor: int) -> None:
    """Refuse rows whose length is no multiple of `factor` elements.

    Raises:
        ValueError: the last dimension is no multiple.
    """
    if tensor.shape[-1] % factor:
        raise ValueError(
            f"{name} has rows of {tensor.shape[-1]} elements, {tensor.dtype} needs a multiple of {factor}"
        )


def check_aligned(name: str, tensor: torch.Tensor, alignment_bytes: int) -> None:
    """Refuse a tensor whose first element does not lie on a multiple of `alignment_bytes`.

    Raises:
        ValueError: it starts in between, as a view into another tensor may.
    """
    if tensor.data_ptr() % alignment_bytes:
        raise ValueError(
            f"{name} does not start at a multiple of {alignment_bytes} bytes in memory; pass {name}.clone()"
        )


def _check_type(name: str, tensor: object) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} is {type(tensor).__name__}, a torch.Tensor is needed")


def _check_place(name: str, tensor: torch.Tensor) -> None:
    if tensor.device.type not in ("cuda", "cpu"):
        raise ValueError(f"{name} is on {tensor.device}, a CUDA device or the CPU is needed")
    if not tensor.is_contiguous():
        raise ValueError(
            f"{name} is not contiguous (shape {tuple(tensor.shape)}, strides {tensor.stride()}); "
            f"pass {name}.contiguous()"
        )


def _check_kin(name: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    if tensor.dtype != other.dtype:
        raise TypeError(f"{name} is {tensor.dtype}, {other.dtype} is needed, the type of {other_name}")
    if tensor.device != other.device:
        raise ValueError(f"{name} is on {tensor.device}, {other.device} is needed, the device of {other_name}")
