"""The photograph that the network looks at: one that matplotlib ships as sample data."""

from __future__ import annotations

import numpy as np

from glow_nb.base.extras import how_to_add
from glow_nb.base.types import Array

SIDE, SHORTER_SIDE = 224, 256
"""Pixels of the crop, and of the shorter side of the photograph it is cropped from."""

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Means and deviations of red, green and blue over ImageNet, as these networks expect them."""


def load_image() -> tuple[Array, str]:
    """Return the input ``float32[1, 3, 224, 224]`` and a few words about it.

    Without matplotlib and pillow, the extra ``plot``, it is seeded noise instead of a photograph.
    """
    try:
        import matplotlib.cbook
        import PIL.Image
    except ModuleNotFoundError as error:
        noise = np.random.default_rng(0).standard_normal((1, 3, SIDE, SIDE), np.float32)
        return noise, f"seeded noise, since {error.name} is not installed; {how_to_add('plot')}"
    path = matplotlib.cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
    with PIL.Image.open(str(path)) as photograph:
        width, height = photograph.size
        scale = SHORTER_SIDE / min(width, height)
        resized = photograph.convert("RGB").resize((round(width * scale), round(height * scale)))
    left, top = (resized.width - SIDE) // 2, (resized.height - SIDE) // 2
    pixels = np.asarray(resized.crop((left, top, left + SIDE, top + SIDE)))
    return normalize(pixels), f"Grace Hopper, {width} x {height} pixels, from matplotlib's samples"


def normalize(pixels: Array) -> Array:
    """Return ``uint8[H, W, 3]`` pixels as the network's input ``float32[1, 3, H, W]``."""
    scaled = (pixels / 255 - np.array(MEAN)) / np.array(DEVIATION)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None], np.float32)
