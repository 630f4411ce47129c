"""Everything that is written to disk."""
