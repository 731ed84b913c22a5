"""The return values of the functions of a bundle: 0 for success, or the reason of a refusal."""

from __future__ import annotations

MISALIGNED, WRONG_CONSTANTS, WRONG_PROCESSOR, NOT_INITIALIZED, NO_SUCH_SHARE = range(1, 6)
NO_SUCH_SIZE, OTHER_SIZES, TOO_LARGE, TOO_SMALL = range(6, 10)
"""Those of bundles with open sizes."""
TILES_REFUSED = 10
"""That of bundles whose kernels use tile registers."""

MEANINGS = {
    "MISALIGNED": (MISALIGNED, "an address is null, or no multiple of the alignment"),
    "WRONG_CONSTANTS": (WRONG_CONSTANTS, "the constants are those of another bundle"),
    "WRONG_PROCESSOR": (WRONG_PROCESSOR, "the code is for processors that can do more"),
    "NOT_INITIALIZED": (NOT_INITIALIZED, "the tensors were not initialized for this bundle"),
    "NO_SUCH_SHARE": (NO_SUCH_SHARE, "there are fewer threads"),
}
"""The codes by their names in C, and what they mean."""

MEANINGS_OF_TILES = {
    "TILES_REFUSED": (TILES_REFUSED, "the system refuses the tile registers of the processor"),
}
"""The same, of bundles whose kernels use tile registers."""

MEANINGS_OF_SIZES = {
    "NO_SUCH_SIZE": (NO_SUCH_SIZE, "a size is outside of its range"),
    "OTHER_SIZES": (OTHER_SIZES, "the code is for sizes where its conditions hold"),
    "TOO_LARGE": (TOO_LARGE, "no machine has the memory that these sizes need"),
    "TOO_SMALL": (TOO_SMALL, "a block is smaller than these sizes need"),
}
"""The same, of bundles with open sizes."""
