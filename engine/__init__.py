"""The continuous-batching engine: one loop, one batch, one protocol. Knows nothing of the UI."""
