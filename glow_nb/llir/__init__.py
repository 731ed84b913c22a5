"""The low-level IR: instructions over buffers that are named by address (paper 3.5)."""
