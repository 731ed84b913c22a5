"""Moving elements: copies through views, and the moves that no strided view can express."""

from __future__ import annotations

from typing_extensions import override

from glow_nb.hlir.ops import shape as nodes
from glow_nb.llir.instructions.derived import derive_instruction
from glow_nb.llir.program import In, Instruction, Out, define_instruction


@define_instruction("copy", scalar="src", inplace=(("dest", "src"),))
class CopyInst(Instruction):
    """``dest = src``, either of which may be a strided view; *src* broadcasts over equal ranks.

    Concat, Split, Slice, Broadcast and Save are nothing but copies.
    """

    dest: Out
    src: In

    @override
    def verify(self) -> None:
        dest, src = self.dest.type, self.src.type
        fits = dest.rank == src.rank and all(
            n in (1, m) for n, m in zip(src.shape, dest.shape, strict=True)
        )
        self.require(
            fits and src.with_shape(dest.shape) == dest,
            f"{self.src!r} of type {src} does not fit {self.dest!r} of type {dest}",
        )


TransposeInst = derive_instruction(nodes.Transpose)
PadInst = derive_instruction(nodes.Pad)
TileInst = derive_instruction(nodes.Tile)
