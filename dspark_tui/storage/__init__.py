"""Sessions on disk: SQLite behind a thread of its own, and exports."""
