"""What NVIDIA's datasheets promise of a product, to stand beside what a board reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Datasheet:
    """Peak rates by their maker.

    Attributes:
        bytes_per_s: memory bandwidth.
        flops_per_s: dense bfloat16 on the tensor cores, None where the source has none. Datasheets print twice
            that, for matrices half of which are zeros.
        source: where the numbers stand.
    """

    bytes_per_s: float
    flops_per_s: float | None
    source: str


_H100 = "NVIDIA H100 Tensor Core GPU datasheet"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet"
_A100 = "NVIDIA A100 Tensor Core GPU datasheet"

# Product name as the driver gives it -> its datasheet.
_BY_PRODUCT = {
    "NVIDIA A100-PCIE-40GB": Datasheet(1.555e12, 312e12, _A100),
    "NVIDIA A100-SXM4-40GB": Datasheet(1.555e12, 312e12, _A100),
    "NVIDIA A100 80GB PCIe": Datasheet(1.935e12, 312e12, _A100),
    "NVIDIA A100-SXM4-80GB": Datasheet(2.039e12, 312e12, _A100),
    "NVIDIA H100 PCIe": Datasheet(2.0e12, 756e12, _H100),
    "NVIDIA H100 80GB HBM3": Datasheet(3.35e12, 989e12, _H100),
    "NVIDIA H100 NVL": Datasheet(3.9e12, 835e12, _H100),
    "NVIDIA H200": Datasheet(4.8e12, 989e12, _H200),
    "NVIDIA H200 NVL": Datasheet(4.8e12, 835e12, _H200),
    "NVIDIA L4": Datasheet(0.3e12, 121e12, "NVIDIA L4 Tensor Core GPU datasheet"),
    "NVIDIA L40S": Datasheet(0.864e12, 362e12, "NVIDIA L40S datasheet"),
    "NVIDIA B200": Datasheet(8.0e12, 2250e12, "NVIDIA Blackwell datasheet, HGX B200"),
}


def find_datasheet(product: str, told_bytes_per_s: float | None = None) -> Datasheet | None:
    """The datasheet of a product.

    Args:
        product: its name as the driver gives it, "NVIDIA H200".
        told_bytes_per_s: the bandwidth that the recording tells of the board, from its memory's clock and
            width, for products that are not in the table; None where it tells none.

    Returns:
        None where neither knows the product.
    """
    if product in _BY_PRODUCT:
        return _BY_PRODUCT[product]
    if told_bytes_per_s is None:
        return None
    return Datasheet(told_bytes_per_s, None, "the driver, through Nsight Systems")
