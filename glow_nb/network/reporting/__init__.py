"""The report of a network: what is asked of it, for the page that :mod:`glow_nb.report` writes."""
