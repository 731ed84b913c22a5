"""Targets without matrix registers, for which kernels of these are emulated."""

from __future__ import annotations

from dataclasses import replace

from glow_nb.kernels.target import MATRIX_FEATURES, Target


def without_matrix_registers(target: Target) -> Target:
    """Return *target* without the features of matrix registers."""
    features = target.features
    for name in MATRIX_FEATURES:
        features = features.replace(f"+{name}", f"-{name}")
    return replace(target, features=features)
