"""The class of pipelines, and the compiler's pipelines as data, with the reason beside each
line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from typing_extensions import override

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.base.passes import STEP_NAMES
from glow_nb.base.schema import closest
from glow_nb.base.steps import (
    Entries,
    Entry,
    Pass,
    Repeat,
    Step,
    as_step,
    name_of_step,
    step_names,
    steps_in,
    what_it_does,
)
from glow_nb.base.table import Table


class Pipeline(tuple[Entry, ...]):
    """Passes in order; printed as a table of them that says what each does.

    ``compile(pipeline=...)`` takes one, or a plain tuple. ``net.pipeline`` is the one that a
    network was compiled by, all steps of the compiler and of the backend included::

        net = glow_nb.compile(model, pipeline=glow_nb.INFERENCE.without("sink_transposes"))
        print(net.pipeline)
    """

    __slots__ = ()

    def without(self, *names: str) -> Pipeline:
        """Return the pipeline without the passes called *names*, those inside of Repeats included.

        Raises:
            OptionError: No such pass is in it, or it cannot be left out.
        """
        return Pipeline(left_out(self, self.checked(names)))

    def inserted(
        self,
        *passes: Entry,
        before: str | Pass[Any] | None = None,
        after: str | Pass[Any] | None = None,
    ) -> Pipeline:
        """Return the pipeline with *passes* right before, or after, another one.

        ::

            glow_nb.INFERENCE.inserted(clip_activations, after="simplify_arithmetic")

        The other one is a pass by its name, or the function itself. Where it stands several times,
        or in a :class:`Repeat`, *passes* stand with it each time.

        Raises:
            OptionError: Not one of *before* and *after* is given, or no such pass is in it.
        """
        beside = [each for each in (before, after) if each is not None]
        if len(beside) != 1:
            raise OptionError(
                f"inserted(before={described(before)}, after={described(after)}): give one of the "
                "two, the pass beside which the others are to stand"
            )
        name, known = as_step(beside[0]).label, list(dict.fromkeys(step_names(self)))
        if name not in known:
            hint = closest(name, known) or f"; it has {', '.join(known) or 'none'}"
            raise OptionError(f"inserted: no pass {name!r:.80} is in the pipeline{hint}")
        return Pipeline(_inserted(self, name, passes, is_before=after is None))

    def checked(self, names: Iterable[str]) -> frozenset[str]:
        """Return *names*; raise OptionError unless all are names of passes that can be left out."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise OptionError(f"without={names!r:.80}: give a tuple of names of passes")
        given = list(names)
        for name in given:
            self._check(name)
        return frozenset(given)

    def _check(self, name: object) -> None:
        """Raise OptionError unless *name* is that of a pass that can be left out."""
        if isinstance(name, str) and name in STEP_NAMES:
            raise OptionError(
                f"without: {name!r} is a step of the compiler, which always runs; passes alone can "
                "be left out"
            )
        called = [step for step in self.steps if name_of_step(step) == name]
        reason = next((step.needed for step in called if step.needed), "")
        if reason:
            raise OptionError(f"without: {name!r} cannot be left out: {reason}")
        if not called:
            known = self.optional
            hint = closest(str(name), known) or f"; there run {', '.join(known) or 'none'}"
            raise OptionError(f"without: no pass {name!r:.80} would run{hint}")

    @property
    def steps(self) -> list[Step]:
        """The steps in order, those inside of Repeats included."""
        return steps_in(self)

    @property
    def optional(self) -> tuple[str, ...]:
        """The names of the passes that can be left out, in the order of their first run."""
        free = (name_of_step(step) for step in self.steps if not step.needed)
        return tuple(name for name in dict.fromkeys(free) if name not in STEP_NAMES)

    @property
    def table(self) -> Table:
        """Each step in order: what repeats it, its name, the part it belongs to, and what it
        does.
        """
        return Table(("", "step", "of", "what it does"), tuple(_rows(self)))

    @override
    def __repr__(self) -> str:
        return str(self.table)

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return self.table._repr_html_()


def _rows(entries: Entries, mark: str = "") -> Iterator[tuple[str, str, str, str]]:
    for entry in entries:
        if isinstance(entry, Repeat):
            yield from _rows(entry.steps, f"repeat {mark}".strip())
            continue
        step = as_step(entry)
        yield mark, name_of_step(step), step.owner, what_it_does(step)


def _inserted(entries: Entries, name: str, passes: Entries, *, is_before: bool) -> Entries:
    """Return *entries* with *passes* beside each pass called *name*."""
    made: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Repeat):
            steps = _inserted(entry.steps, name, passes, is_before=is_before)
            made.append(replace(entry, steps=steps))
        elif name_of_step(entry) != name:
            made.append(entry)
        else:
            made += (*passes, entry) if is_before else (entry, *passes)
    return tuple(made)


def left_out(pipeline: Entries, names: Collection[str]) -> Entries:
    """Return *pipeline* without the passes called *names*, wherever they stand in it."""
    if not names:
        return pipeline
    kept: list[Entry] = []
    for entry in pipeline:
        if isinstance(entry, Repeat):
            kept.append(replace(entry, steps=left_out(entry.steps, names)))
        elif name_of_step(entry) not in names:
            kept.append(entry)
    return tuple(kept)


INFERENCE = Pipeline(
    (
        "eliminate_dead_nodes",  # an importer may leave nodes that nothing reads
        "lower_batch_norm_training",  # passes know moments and the normalization for inference
        "split_recurrent_layers",  # their product with the inputs is a product as any other
        "sink_dequantizes",  # tables of embeddings stay integers
        "raise_quantized_products",  # before constants are folded, which makes floats of weights
        "raise_dequantizing_products",  # likewise, where activations are floats
        "sink_broadcasts",  # a number that is repeated for elementwise operators stays one number
        "fold_constants",  # weights that the model computes become plain weights
        "eliminate_common_nodes",  # a pattern is found only if its nodes share their operands
        Repeat(
            (
                "raise_attention",  # before passes that move what it is made of
                "raise_group_normalization",  # likewise: transposes sink below it, not its reshapes
                "lay_out_attention",  # transposes around attention cost nothing if it makes them
                "sink_transposes",  # a transpose that meets its inverse is dropped with it
                "sink_reshapes",  # elementwise nodes join their producer if no reshape is between
                "sink_broadcasts",  # elementwise operators repeat small operands by themselves
                "eliminate_noops",  # a transpose, reshape or slice that moves nothing is dropped
                "sink_dequantizes",  # bytes are moved, not the floats that they stand for
                "quantize_clips",  # bounds that the quantized type has by itself are dropped
                "merge_quantizations",  # what was dequantized and is quantized again stays integers
                "quantize_producers",  # products make bytes by themselves
                "raise_quantized_arithmetic",  # so that rescales fold into it
                "fold_rescales",  # numbers are rounded once
                "raise_lookup_tables",  # one look-up takes less time than what computes a function
                "merge_concats",  # a concat of concats becomes one concat, which copies once
                "gather_rows",  # rows are copied as vectors, elements one by one
                "gathers_to_slices",  # a slice is a view of its input and costs nothing
                "merge_slices",  # a slice of a slice becomes one; gathers must have become slices
                "merge_conversions",  # exporters convert to another kind and back
                "simplify_arithmetic",  # raise_ passes look for one form of each expression
                "simplify_reductions",  # a reduction over axes of size 1 becomes a reshape
                "merge_clips",  # several bounds of one value become one pass over it
                "raise_softmax",  # a softmax that is written out becomes one node with one kernel
                "raise_gelu",  # a GELU that is written out becomes one node
                "raise_leaky_relu",  # a leaky ReLU that is written out becomes one node
                "raise_swish",  # a swish that is written out becomes one node
                "raise_layer_normalization",  # one that is written out becomes one node
                "expand_powers",  # a few products and roots for a logarithm and an exponential
                "fold_pads",  # a convolution adds zeros around its input by itself, without a copy
                "trim_windows",  # taps of a window that see nothing but padding are dropped
                "hoist_means",  # means of pixels are fewer than pixels, and are convolved
                "fold_batch_normalization",  # a normalization goes into the filter before it
                "sink_channel_shuffles",  # a shuffle ends in the weights of the nodes that read it
                "hoist_channel_gathers",  # a gather ends in the weights of its producer
                Repeat(
                    (
                        "hoist_slices",  # rows and channels that nothing reads are not computed
                        "eliminate_common_nodes",  # slices of two branches that meet become one
                        "eliminate_dead_nodes",  # what is cut is read once: it moves on up
                    ),
                    limit=1000,
                ),
                "sink_scales",  # a factor after a matrix product joins the product's kernel
                "raise_fully_connected",  # a product plus a row; after sink_scales
                "fold_constants",  # weights that passes transposed or scaled become plain weights
                "eliminate_common_nodes",  # nodes that passes have made equal are computed once
                "eliminate_dead_nodes",  # nodes that passes have replaced are dropped
            ),
            limit=20,
        ),
    )
)
"""Graph passes for inference, run before and again after lowering."""

TRAINING = Pipeline(
    (
        "eliminate_dead_nodes",  # differentiation leaves gradients that were not requested
        "fold_constants",  # what does not depend on a weight is computed once
        "eliminate_common_nodes",  # rules emit the same small nodes again and again
        Repeat(
            (
                "raise_attention",  # patterns are raised for their gradients, which are better ones
                "raise_group_normalization",  # transposes sink below it, not below its reshapes
                "sink_transposes",  # a transpose that meets its inverse is dropped with it
                "sink_reshapes",  # elementwise nodes join their producer if no reshape is between
                "sink_broadcasts",  # elementwise operators repeat small operands by themselves
                "eliminate_noops",  # a transpose, reshape or slice that moves nothing is dropped
                "merge_concats",  # a concat of concats becomes one concat, which copies once
                "gather_rows",  # rows are copied as vectors, elements one by one
                "gathers_to_slices",  # a slice is a view of its input and costs nothing
                "merge_slices",  # a slice of a slice becomes one; gathers must have become slices
                "merge_conversions",  # exporters convert to another kind and back
                "simplify_arithmetic",  # raise_ passes look for one form of each expression
                "simplify_reductions",  # a reduction over axes of size 1 becomes a reshape
                "merge_clips",  # several bounds of one value become one pass over it
                "raise_softmax",  # a softmax that is written out becomes one node with one kernel
                "raise_gelu",  # a GELU that is written out becomes one node
                "raise_leaky_relu",  # a leaky ReLU that is written out becomes one node
                "raise_swish",  # a swish that is written out becomes one node
                "raise_layer_normalization",  # one that is written out becomes one node
                "fold_pads",  # a convolution adds zeros around its input by itself, without a copy
                "raise_fully_connected",  # a product plus a row
                "fold_constants",  # numbers that passes have made
                "eliminate_common_nodes",  # nodes that passes have made equal are computed once
                "eliminate_dead_nodes",  # nodes that passes have replaced are dropped
            ),
            limit=20,
        ),
    )
)
"""Graph passes for a training step, run before gradients are made and when it is compiled.

It lacks the passes of :data:`INFERENCE` that precompute weights, which would be computed again in
each step.
"""

INSTRUCTIONS = Pipeline(
    (
        "eliminate_dead_stores",  # a value that is never read is not computed
        "peephole",  # simpler instructions: before stacking, since more of them can be stacked
        "stack_instructions",  # elementwise work joins the kernel of its producer or consumer
        "peephole",  # a copy that stacking has put into no kernel may have become needless
        "eliminate_slices",  # what reads a slice reads it in place, through a view, without a copy
        "eliminate_copies",  # the parts of a concat are computed where the concat has them
        "schedule_instructions",  # few bytes are live at one time; after what adds or drops values
        "share_buffers",  # a result is written over an operand that nothing reads afterwards
        "shrink_lifetimes",  # memory is reserved from the first to the last use and no longer
    )
)
"""Instruction passes, run before allocation."""
