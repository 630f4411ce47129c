"""Answers and sessions as text: the only place that knows colour, widths or the shape of --json."""
