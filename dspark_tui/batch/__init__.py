"""The batch as its events tell it, and as rows to draw. Pure."""
