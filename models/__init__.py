"""The bundled embedding model, and manifest.toml, the cards of the models that build.py can build."""
