"""A product, as far as the choice of an algorithm depends on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from glow_nb.backends.cpu.integer_products import factor_kinds, matrix_dot_of
from glow_nb.backends.cpu.operand_layouts import operands_as_they_lie
from glow_nb.backends.cpu.paired_weights import may_pair
from glow_nb.backends.cpu.products import Product, shape_of
from glow_nb.base.dot_instruction import DotInstruction
from glow_nb.base.map_sizes import at_hints
from glow_nb.base.size import symbols_in
from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Constant
from glow_nb.hlir.ops import Convolution, FullyConnected, MatMul, Transpose
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.open_extents import example_shape
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.target import Target


@dataclass(frozen=True)
class Problem:
    """A convolution or a matrix product to choose an algorithm for; equal ones have equal plans.

    Attributes:
        shape: Sizes; a matrix product is a convolution of a line of rows with one tap.
        product: Sizes of a matrix product; None for a convolution.
        stored: Element kind of the left operand in memory.
        left: Element kind that left elements are multiplied as.
        total: Element kind of the result.
        right: Element kind of the right operand.
        dot: The dot instruction that multiplies left and right elements.
        is_constant: Whether the right operand is known when the network is compiled.
        is_laid_out: Whether panels of the right matrix take no time at run time.
        may_pair: Whether pairs of bytes that do not saturate may be faster, if the weights allow.
        in_place: The matrices with their layouts, if the right one is known only at run time; None
            otherwise.
        in_place_kinds: Element kinds of these matrices.
        threads: Cores that share the work.
        widths: The number of panel widths to try.
        is_open: Whether some size is open; it is then the size of the example.
        matrix_is_open: Whether the height or width of the right matrix is.
        matrix: The dot instruction that multiplies the elements as they are stored in matrix
            registers; None if there is none.
    """

    shape: ConvolutionShape
    product: MatMulShape | None
    stored: ElementKind
    left: ElementKind
    right: ElementKind
    total: ElementKind
    dot: DotInstruction
    is_constant: bool
    is_laid_out: bool = True
    may_pair: bool = False
    in_place: UnpackedProduct | None = None
    in_place_kinds: ProductKinds | None = None
    threads: int = 1
    widths: int = 1
    is_open: bool = False
    matrix_is_open: bool = False
    matrix: DotInstruction | None = None

    @property
    def kinds(self) -> ProductKinds:
        """The element kinds of the factors of the dot instruction; single factors have the same
        kind.
        """
        return ProductKinds.of(self.left, self.right if self.dot.group > 1 else None, self.dot)

    def by(self, dot: DotInstruction) -> Problem:
        """Return this problem with *dot*, one of its two dot instructions."""
        return self if dot is not self.matrix else replace(self, dot=dot, left=self.stored)

    @classmethod
    def of(cls, node: Product, target: Target, *, threads: int = 1, widths: int = 1) -> Problem:
        """Return what *node* computes, for *threads* threads of *target*.

        Sizes that are known only when the network runs are those of the example.

        Args:
            node: A convolution or a matrix product.
            target: The processor, which decides the dot instruction.
            threads: Cores that share the work.
            widths: The number of panel widths to try in each algorithm.
        """
        left, dot = factor_kinds(node, target)
        _, right = node.factors
        common = cls(
            shape=_shape_of(node),
            product=None,
            stored=node.factors[0].type.kind,
            left=left,
            right=right.type.kind,
            total=node.type.kind,
            dot=dot,
            is_constant=isinstance(right, Constant),
            matrix=matrix_dot_of(node, target),
            may_pair=may_pair(node, target),
            threads=threads,
            widths=widths,
        )
        problem = common if isinstance(node, Convolution) else _with_matrices(common, node)
        sized = at_hints(problem)
        if sized is problem:
            return problem
        product = problem.product
        shape = None if product is None else example_shape(product)
        is_open = isinstance(product, MatMulShape) and bool(
            symbols_in((product.inner, product.depth))
        )
        return replace(sized, product=shape, is_open=True, matrix_is_open=is_open)


def _shape_of(node: Product) -> ConvolutionShape:
    if isinstance(node, Convolution):
        return shape_of(node)
    product = _product_of(node)
    rows = (1, product.batch * product.rows, product.inner)
    return ConvolutionShape.of(rows, product.depth, (1,), (0, 0))


def _product_of(node: MatMul | FullyConnected) -> MatMulShape:
    lhs, rhs = node.factors
    return MatMulShape.of(lhs.type.shape, rhs.type.shape[-1], is_batched=rhs.type.rank > 2)


def _with_matrices(problem: Problem, node: MatMul | FullyConnected) -> Problem:
    """Return *problem* with the sizes and the layout of the matrices of *node*."""
    is_grouped = problem.dot.group > 1
    (lhs, lhs_order), (rhs, rhs_order) = operands_as_they_lie(node)
    in_place = kinds = None
    if not is_grouped and not isinstance(rhs, Constant):
        in_place = UnpackedProduct.of_types(lhs.type, rhs.type, lhs_order, rhs_order)
        kinds = ProductKinds.of(lhs.type.kind, rhs.type.kind)
    # a transpose writes panels instead; groups of factors are laid out in any case
    is_laid_out = isinstance(node.factors[1], (Constant, Transpose)) or is_grouped
    return replace(
        problem,
        product=_product_of(node),
        is_laid_out=is_laid_out,
        in_place=in_place,
        in_place_kinds=kinds,
    )


def pixels_of(problem: Problem) -> int:
    """Return the rows that are multiplied: pixels of all images, or rows of all matrices."""
    return problem.shape.batch * prod(problem.shape.output)
