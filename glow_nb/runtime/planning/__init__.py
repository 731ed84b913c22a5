"""Where the parts of a network run: cuts, plans and their bounds (paper section 6)."""
