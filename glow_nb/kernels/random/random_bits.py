"""Random words, and what becomes of them, in one loop over the elements of the result."""

from __future__ import annotations

from dataclasses import replace

from glow_nb.base.size import surely
from glow_nb.fuse.vector_code import VectorCode
from glow_nb.kernels.registry import head_kernel_for
from glow_nb.kernels.stacks.elementwise import vectors_at_once
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.loops import broadcast_strides
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import native_lanes
from glow_nb.kernels.writing.walks import Walk
from glow_nb.llir.instructions.random import RandomBitsInst
from glow_nb.llir.program import Buffer
from glow_nb.llir.strides import contiguous_strides
from glow_nb.llir.traits import FUSES_EPILOGUE
from glow_nb.numerics.philox import WORDS

_ELEMENT = "element"
"""What stands among the tensors for the numbers of their elements, as if these lay in memory."""


@head_kernel_for(RandomBitsInst, traits=replace(FUSES_EPILOGUE, strided=("dest",)))
def random_bits_source(instruction: RandomBitsInst, target: Target, fusion: Fusion) -> KernelSource:
    """Return the kernel ``(dest, generator)``, or that of the stack around it."""
    fusion = fusion.named("dest", "generator")
    out = SourceWriter()
    with out.block(fusion.header):
        if surely(instruction.dest.type.size, "==", 0):
            out.line("return")
        else:
            _write(out, instruction, fusion, _walk(instruction, target, fusion))
    return KernelSource("random_bits", out.text, fusion.kinds)


def _walk(instruction: RandomBitsInst, target: Target, fusion: Fusion) -> Walk:
    """Return the walk that visits each element once."""
    shape, epilogue = instruction.dest.type.shape, fusion.epilogue
    by_element = {*fusion.results, *(epilogue.inputs if epilogue else ())}

    def strides_of(buffer: Buffer) -> tuple[int, ...]:
        return broadcast_strides(buffer, shape) if buffer in by_element else (0,) * len(shape)

    tensors = fusion.tensors(strides_of) | {_ELEMENT: contiguous_strides(shape)}
    code = epilogue.trial() if epilogue else VectorCode(1)
    vectors = vectors_at_once(code, target)
    lanes = vectors * native_lanes(target, instruction.dest.type.kind)
    return Walk.over(shape, (), tensors, lanes)


def _write(out: SourceWriter, instruction: RandomBitsInst, fusion: Fusion, walk: Walk) -> None:
    generator = fusion.names[instruction.generator]
    out.line(f"seed = get({generator}, 0)")
    out.line(f"run = get({generator}, 1)")
    words = "random_words" if _begins_with_a_counter(walk) else "random_words_anywhere"
    source = f"seed, run, {instruction.stream}, {_ELEMENT}_at"
    for place in walk.places(out):
        fusion.write(out, place, f"{words}({source}, {place.lanes})")


def _begins_with_a_counter(walk: Walk) -> bool:
    """Return whether the first elements of all vectors are multiples of four."""
    *outer, inner = walk.kept.strides[walk.names.index(_ELEMENT)]
    return inner == 1 and walk.lanes >= WORDS and all(step % WORDS == 0 for step in outer)
