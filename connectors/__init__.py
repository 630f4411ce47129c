"""One agent per file: each finds its sessions and normalizes them. Read-only; knows nothing of the index."""
