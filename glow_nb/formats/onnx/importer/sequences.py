"""Lengths of the sequences in a batch, which are padded to the same number of steps."""

from __future__ import annotations

from glow_nb.base.size import surely
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.hlir.graph import Constant, Value


def check_lengths(ctx: Context, lengths: Value, steps: int) -> None:
    """Raise ModelError if *lengths* are known, and one is none of a sequence of *steps*.

    For data-dependent lengths, a negative one counts as 0, and a larger one as *steps*.
    """
    if not isinstance(lengths, Constant):
        return
    found = [int(length) for length in lengths.array.reshape(-1)]
    wrong = next((n for n in found if n < 0 or surely(n, ">", steps)), None)
    if wrong is not None:
        raise ctx.wrong(
            f"sequence_lens has the length {wrong}, and the sequences have {steps} steps; give "
            f"lengths from 0 to {steps}"
        )
