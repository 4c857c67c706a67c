"""Panes, what is said in them, and what is on its way."""
