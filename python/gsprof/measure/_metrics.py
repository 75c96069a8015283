# SPDX-License-Identifier: Apache-2.0
"""Measurements of a block. A value that could not be measured is None, never 0."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional

from .._sites import GrowthSite
from ._lines import LineStats

_MB_PER_GB = 1024.0


@dataclass(frozen=True)
class MemoryMetrics:
    """Resident memory of the process, in MB of 2**20 bytes."""

    initial_ram_mb: Optional[float] = None
    peak_ram_mb: Optional[float] = None
    final_ram_mb: Optional[float] = None
    # Of this process if the driver reports it, else all memory in use on the GPUs.
    peak_gpu_mb: Optional[float] = None
    # None: not tested (see detailed_memory), or the block was too short.
    memory_leak_detected: Optional[bool] = None
    growth_mb_per_s: Optional[float] = None
    growth_sites: List[GrowthSite] = field(default_factory=list)


@dataclass(frozen=True)
class TimingMetrics:
    """Seconds; CPU time is that of all threads of the process."""

    wall_time_s: float
    cpu_time_s: float
    user_time_s: float
    system_time_s: float


@dataclass(frozen=True)
class ComputeMetrics:
    """Utilisations are means over the block, from 0 to 100."""

    estimated_flops: Optional[int] = None
    flops_per_second: Optional[float] = None
    # Of all GPUs.
    gpu_utilization_percent: Optional[float] = None
    # CPU time of this process, in per cent of all cores it may use.
    cpu_utilization_percent: Optional[float] = None
    flops_by_operator: Dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SystemMetrics:
    """The machine, or the part that the control group allows; means over the block."""

    cpu_percent: Optional[float] = None
    memory_percent: Optional[float] = None
    # Share of time with a request in progress, of the busiest device.
    disk_io_percent: Optional[float] = None
    # Received and sent, all devices except loopback.
    network_io_mb: Optional[float] = None


@dataclass(frozen=True)
class EnergyMetrics:
    """Energy of the machine's processors, memory and GPUs during the block."""

    energy_kwh: Optional[float]
    carbon_g: Optional[float]
    carbon_intensity_g_per_kwh: float
    # counters (RAPL, NVML), estimate (utilisation and TDP), mixed; None: not known.
    source: Optional[str]

    @property
    def is_estimate(self) -> bool:
        return self.source != "counters"


def _size(mb: float) -> str:
    return f"{mb / _MB_PER_GB:.1f} GB" if mb >= _MB_PER_GB else f"{mb:.1f} MB"


@dataclass(frozen=True)
class PerformanceMetrics:
    """All measurements of one block.

    >>> PerformanceMetrics(
    ...     "training",
    ...     MemoryMetrics(peak_ram_mb=2457.6),
    ...     TimingMetrics(45.2, 40.0, 38.0, 2.0),
    ...     ComputeMetrics(gpu_utilization_percent=78.0),
    ...     SystemMetrics(),
    ... ).summary()
    'Peak RAM: 2.4 GB, Wall Time: 45.2s, GPU Util: 78%'
    """

    name: str
    memory: MemoryMetrics
    timing: TimingMetrics
    compute: ComputeMetrics
    system: SystemMetrics
    energy: Optional[EnergyMetrics] = None
    lines: Optional[LineStats] = None
    # repr() of the exception that left the block.
    error: Optional[str] = None

    def to_dict(self) -> Dict[str, Any]:
        """Returns plain dictionaries, lists, numbers and strings, for json.dumps()."""
        plain: Dict[str, Any] = {
            "name": self.name,
            "memory": asdict(self.memory),
            "timing": asdict(self.timing),
            "compute": asdict(self.compute),
            "system": asdict(self.system),
            "energy": None,
            "lines": None if self.lines is None else self.lines.to_list(),
            "error": self.error,
        }
        plain["memory"]["growth_sites"] = [
            site._asdict() for site in self.memory.growth_sites  # asdict() keeps tuples
        ]
        if self.energy is not None:
            plain["energy"] = {**asdict(self.energy), "is_estimate": self.energy.is_estimate}
        return plain

    def summary(self) -> str:
        """Returns one line; without a GPU, it does not mention it."""
        parts = []
        if self.memory.peak_ram_mb is not None:
            parts.append(f"Peak RAM: {_size(self.memory.peak_ram_mb)}")
        parts.append(f"Wall Time: {_duration(self.timing.wall_time_s)}")
        if self.compute.gpu_utilization_percent is not None:
            parts.append(f"GPU Util: {self.compute.gpu_utilization_percent:.0f}%")
        return ", ".join(parts)


def _duration(seconds: float) -> str:
    if seconds >= 0.1:
        return f"{seconds:.1f}s"
    return f"{seconds * 1000:.1f}ms"
