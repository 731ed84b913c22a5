"""Kernels that read windows of an image: pooling and RoiAlign."""
