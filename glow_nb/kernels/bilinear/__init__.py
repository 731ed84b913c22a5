"""Shared code of the kernels of bilinear algorithms: those of Winograd and of Strassen."""
