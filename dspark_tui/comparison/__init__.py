"""Answers set side by side: differences, votes, broadcasts, repeats."""
