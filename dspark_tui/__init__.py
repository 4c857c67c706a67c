"""dspark-tui: a terminal workbench over one continuous-batching engine."""

__version__ = "0.1.0"
