"""Text as a terminal can show it: made harmless, wrapped, set as Markdown. Pure."""
