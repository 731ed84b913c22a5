"""Kernels that only move elements: gathers, scatters, pads, repeats."""
