"""Experiments: prompts × inputs × parameter sets, asked of one engine and judged."""
