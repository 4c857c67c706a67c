"""The device MLX computes on, as the engine needs to know it. Imports MLX."""

from __future__ import annotations

import mlx.core as mx

from engine.hardware import memory


def is_cpu() -> bool:
    return bool(mx.default_device().type == mx.DeviceType.cpu)


def free_bytes() -> int:
    """What weights and K/V may still take: of a GPU's recommended working set, else of memory."""
    info = mx.device_info()
    working_set = info.get("max_recommended_working_set_size")
    if working_set is not None:
        return max(int(working_set) - int(mx.get_active_memory()), 0)
    free = info.get("free_memory")
    return memory.available() if free is None else int(free)
