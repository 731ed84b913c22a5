"""The high-level IR: a graph of typed nodes (paper 3.1 to 3.4)."""
