"""The two public formats: unified NDJSON and SessionData. Written, read and validated here."""
