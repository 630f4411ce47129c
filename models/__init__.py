"""Where the bundled embedding model will live. Nothing is here yet."""
