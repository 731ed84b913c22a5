"""Candidates for problems that are written down by their sizes, as tests look at them."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.backends.cpu.algorithms import Candidate, Problem, algorithm_of
from glow_nb.backends.cpu.algorithms.candidates import candidates_for
from glow_nb.base.dot_instruction import SINGLE, DotInstruction
from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.target import Target


@dataclass(frozen=True)
class Found:
    """A candidate, with what its plan says of tiles and panels."""

    candidate: Candidate
    problem: Problem

    @property
    def cycles(self) -> float:
        return self.candidate.cycles

    @property
    def ranked_cycles(self) -> float:
        plan = self.candidate.plan
        return self.cycles * algorithm_of(plan).min_speedup(plan, self.problem)

    @property
    def algorithm(self) -> str:
        return self.candidate.plan.algorithm

    @property
    def tile(self) -> tuple[int, ...] | None:
        return tile_of(self.candidate.plan)

    @property
    def block(self) -> int:
        return self.candidate.plan.number("block")


def tile_of(plan: Plan) -> tuple[int, ...] | None:
    """Return the outputs of a Winograd tile, None of other algorithms."""
    return plan.sizes("tile") if plan.has("tile") else None


def convolution_candidates(
    shape: ConvolutionShape,
    kind: ElementKind,
    target: Target,
    *,
    dot: DotInstruction = SINGLE,
    winograd: bool = True,
    strassen: bool = False,
    blocks: int = 1,
    threads: int = 1,
    is_packed: bool = True,
) -> list[Found]:
    """Return the candidates for a convolution, that with the least estimated time first."""
    right = next(iter(dot.right), kind)
    problem = Problem(
        shape, None, kind, kind, right, kind, dot, is_packed, threads=threads, widths=blocks
    )
    names = ["direct", *["winograd"] * winograd, *["strassen"] * strassen]
    return [Found(each, problem) for each in candidates_for(problem, target, names)]


def product_candidates(
    shape: MatMulShape,
    kind: ElementKind,
    target: Target,
    *,
    dot: DotInstruction = SINGLE,
    blocks: int = 1,
    is_laid_out: bool = True,
) -> list[Found]:
    """Return the direct candidates for a product, that with the least estimated time first."""
    rows = (1, shape.batch * shape.rows, shape.inner)
    line = ConvolutionShape.of(rows, shape.depth, (1,), (0, 0))
    right = next(iter(dot.right), kind)
    problem = Problem(line, shape, kind, kind, right, kind, dot, True, is_laid_out, widths=blocks)
    return [Found(each, problem) for each in candidates_for(problem, target, ["direct"])]
