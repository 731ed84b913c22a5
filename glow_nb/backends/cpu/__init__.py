"""The backend for this machine: kernels made to measure and compiled to machine code."""
