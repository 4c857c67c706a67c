"""The state of all rows of a batch: K and V, rings of them, recurrent states.

`plan` finds out how a model's rows can be kept. `batch` holds all layers' caches of several rows,
one file per kind of layer: `attention`, `quantized`, `sliding`, `recurrent`; they share the `rows`'
lengths. `solo` is for what can't be batched.
"""

from engine.cache.batch import BatchCache, CachedRow, UnbatchableError
from engine.cache.plan import CachePlan, plan_for
from engine.cache.protocols import RowCache

__all__ = ["BatchCache", "CachePlan", "CachedRow", "RowCache", "UnbatchableError", "plan_for"]
