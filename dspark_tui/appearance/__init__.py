"""Colours and signs: themes, roles, glyphs."""
