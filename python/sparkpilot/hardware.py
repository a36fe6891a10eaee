"""What this machine is: its GPUs, whether it is a DGX Spark, and what openpilot's models run best in on it.

    from sparkpilot.hardware import HARDWARE, get_best_gpu, is_dgx_spark

    print(HARDWARE.hardware_class, HARDWARE.backend, get_best_gpu())

The machine is examined once, at the first call. What it does not report is None. docs/machine.md says what is read from
where.
"""
from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, List, Optional, Tuple

from sparkpilot import _core

__all__ = ["HARDWARE", "Gpu", "Hardware", "get_best_gpu", "get_nvidia_gpus", "get_recommended_precision", "is_dgx_spark",
           "is_nvidia_available"]


@dataclasses.dataclass(frozen=True)
class Gpu:
    """An NVIDIA GPU. Memory in bytes, clocks in MHz, power in watts, temperatures in degrees Celsius."""

    nvml_index: Optional[int]
    #: CUDA's number, as in device="cuda:0"; None: this process cannot compute on it.
    cuda_index: Optional[int]
    name: Optional[str]
    #: Compute capability, such as (12, 1).
    capability: Optional[Tuple[int, int]]
    multiprocessors: Optional[int]
    #: One memory for CPU and GPU, as on a DGX Spark.
    unified_memory: Optional[bool]
    #: Its own memory; None if it is unified.
    memory_total: Optional[int]
    memory_used: Optional[int]
    pci: Optional[str]
    kernel_driver: Optional[str]
    max_sm_clock_mhz: Optional[int]
    power_w: Optional[float]
    power_limit_w: Optional[float]
    temperature_c: Optional[int]
    supports_fp16: bool
    supports_bf16: bool
    supports_fp8: bool
    supports_nvfp4: bool
    #: "fp16" from compute capability 7.0 on, else "fp32".
    recommended_precision: str


@dataclasses.dataclass(frozen=True)
class Hardware:
    """The machine. Memory in bytes."""

    #: "NVIDIA DGX Spark", or the maker and the product.
    system: Optional[str]
    operating_system: Optional[str]
    kernel: Optional[str]
    #: Version of DGX OS.
    dgx_os: Optional[str]
    #: "docker" and the like, where this is one.
    container: Optional[str]
    #: "x86_64" or "aarch64".
    architecture: Optional[str]
    cpu: Optional[str]
    #: Online processors, and cores without second threads.
    processors: int
    cores: Optional[int]
    #: Of avx2, avx512, avx512_bf16, avx512_vnni, amx_bf16, neon, neon_bf16, i8mm, sve, sve2.
    isa: List[str]
    memory_total: Optional[int]
    #: Version of NVIDIA's driver, and the newest CUDA that it supports.
    driver: Optional[str]
    cuda: Optional[Tuple[int, int]]
    gpus: List[Gpu]
    #: Index into gpus.
    best_gpu: Optional[int]
    is_dgx_spark: bool
    is_nvidia_available: bool
    #: "dgx_spark", "nvidia_pc", "comma_device" or "pc".
    hardware_class: str
    #: What openpilot's models run on: "cuda", "qcom" or "cpu".
    backend: str
    recommended_precision: str

    def get_device_type(self) -> str:
        """The hardware class, by the name of openpilot's HARDWARE."""
        return self.hardware_class


@functools.lru_cache(maxsize=None)
def _here() -> Hardware:
    machine = _core.machine()
    return Hardware(**{**machine, "gpus": [Gpu(**gpu) for gpu in machine["gpus"]]})


def is_nvidia_available() -> bool:
    """Whether there is an NVIDIA GPU that programs can compute on."""
    return _here().is_nvidia_available


def is_dgx_spark() -> bool:
    """Whether this is a DGX Spark, NVIDIA's own or another maker's with a GB10."""
    return _here().is_dgx_spark


def get_nvidia_gpus() -> List[Gpu]:
    """NVIDIA's GPUs, those that cannot be computed on too."""
    return list(_here().gpus)


def get_best_gpu() -> Optional[Gpu]:
    """The GPU to compute on: the highest capability, then the most multiprocessors, then memory; None if there is none."""
    here = _here()
    return None if here.best_gpu is None else here.gpus[here.best_gpu]


def get_recommended_precision(gpu: Optional[Gpu] = None) -> str:
    """The fastest precision that preserves a driving model's outputs on that GPU (None: on the best): "fp16" or "fp32"."""
    return (gpu or _here()).recommended_precision


if TYPE_CHECKING:
    HARDWARE: Hardware
else:
    def __dir__() -> List[str]:
        return sorted({*globals(), "HARDWARE"})

    def __getattr__(name: str) -> Hardware:
        if name == "HARDWARE":
            return _here()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
