"""agent-journal: search over the sessions of AI coding agents. Everything `aj` does can be done from here."""

__version__ = "0.1.0"
