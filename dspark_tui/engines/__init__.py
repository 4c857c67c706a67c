"""Where engines are, and the way to them: workers of our own and servers elsewhere."""
