"""Rules on programs: patterns are looked for among instructions, and others come instead.

A pattern of operators is found where each operand was written by the instruction of the operator in
it, and nothing has written to that memory since. What comes instead stands where the root of the
pattern stood, and writes to the same memory; so what it reads must be unchanged there. A stack is
one kernel: nothing inside of it is looked at.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from glow_nb.base.errors import GlowError, VerifyError
from glow_nb.base.foreign import foreign
from glow_nb.base.matching import CONTEXT, ROOT, Maker, PatternCompiler, Registers, Step
from glow_nb.base.pattern import Given, Item, Pattern, Wildcard
from glow_nb.base.payload import array_or_none
from glow_nb.base.rewriting import LEVELS, Rewrite, Rules
from glow_nb.base.rule_walks import Chain, Chains, to_the_end
from glow_nb.base.schema import operands_of, qualified_operands_of, structural_key
from glow_nb.hlir.known import uniform_number
from glow_nb.llir.flow import Flow
from glow_nb.llir.in_place import is_same_region, may_lie_on
from glow_nb.llir.instruction_writer import InstructionWriter, NewBuffers
from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.optimize.eliminate_dead_stores import eliminate_dead_stores
from glow_nb.llir.program import Activation, Buffer, Instruction, Program, Weight, mutated, read
from glow_nb.llir.traits import NO_TRAITS, Traits
from glow_nb.llir.verify import may_overlap
from glow_nb.llir.windows import can_be_strided


def rewrite_program_by(program: Program, rules: Rules, traits: Traits | None = None) -> Program:
    """Return *program* with all that *rules* make of it, until none fits any more.

    What then writes only into memory that nothing reads is gone. Kernels must take operands with
    gaps where a rule gives them some, as *traits* say. The same program comes back if nothing fits.

    Raises:
        GlowError: The rules undo each other or come to no end; names those at fault.
    """
    able = NO_TRAITS if traits is None else traits

    def walk(program: Program, fired: Counter[str]) -> Program:
        after = _walk(program, rules, able, fired)
        return after if after is program else eliminate_dead_stores(after)

    return to_the_end(program, len(program.instructions), walk, _state_of)


LEVELS[Program] = rewrite_program_by


@dataclass
class Site:
    """The interface for rules on instructions; their functions get it as ``rewriter``.

    Attributes:
        flow: Which instruction makes what another one reads.
        traits: The traits of the kernels.
        buffers: Makes new activations and weights.
    """

    flow: Flow
    traits: Traits
    buffers: NewBuffers


def _walk(program: Program, rules: Rules, traits: Traits, fired: Counter[str]) -> Program:
    chains: Chains | None = rules.compiled.get(Program)
    if chains is None:
        chains = rules.compiled[Program] = Chains(rules, _compiled, _may_be)
    site = Site(Flow(program.work), traits, NewBuffers(program))
    before = fired.total()
    left = deque(site.flow.work.numbers)
    while left:
        number = left.popleft()
        made = _replaced(site, number, chains, fired)
        if made is None:
            continue
        if len(made) == 1:
            site.flow.replace(number, made[0])
            continue
        order = [site.flow.work[n] for n in site.flow.work.numbers]
        place = order.index(site.flow.work[number])
        site.flow = Flow([*order[:place], *made, *order[place + 1 :]])
        left = deque(site.flow.work.numbers[place + len(made) :])
    if fired.total() == before:
        return program
    work = [site.flow.work[number] for number in site.flow.work.numbers]
    weights = (*program.weights, *site.buffers.weights)
    changed = dataclasses.replace(program, weights=weights)
    return changed.with_instructions(mark_lifetimes(work))


def _replaced(
    site: Site, number: int, chains: Chains, fired: Counter[str]
) -> Sequence[Instruction] | None:
    """Return what comes instead of instruction *number*; None if no rule fits."""
    found: Sequence[Instruction] | None = chains.applied(site.flow.work[number], site, fired)
    return found


def _state_of(program: Program) -> object:
    """Return what is equal for programs of the same instructions, whatever memory is called."""
    numbers: dict[Buffer, object] = {}

    def alike(buffer: Buffer) -> object:
        if isinstance(buffer, Weight):
            array = array_or_none(buffer.payload)
            return buffer if array is None or array.size > 1 else (buffer.type, array.tobytes())
        if not isinstance(buffer, Activation):
            return buffer
        return numbers.setdefault(buffer, ("activation", len(numbers)))

    return hash(tuple(structural_key(instruction, alike) for instruction in program.work))


def _may_be(cls: type, item: Item) -> bool:
    """Return whether an instruction of class *cls* may match the pattern *item*."""
    kinds = [kind for kind in (cls, getattr(cls, "node_class", None)) if kind is not None]
    if item.is_exact:
        return item.classes[0] in kinds
    return any(issubclass(kind, item.classes) for kind in kinds)


def _compiled(rule: Rewrite) -> Chain:
    compiler = _ProgramPattern(rule.pattern)
    first = compiler.chain(_end_of(rule, compiler))
    return Chain(rule.__name__, compiler.quick_test(), compiler.size, first)


class _ProgramPattern(PatternCompiler):
    """A pattern that is looked for among instructions, up through what they have written."""

    @override
    def classes_of(self, pattern: Pattern) -> tuple[type, ...]:
        return ()  # an operand is a buffer, whatever has written it

    @override
    def of_classes(self, at: int, item: Item) -> Maker:
        return lambda then: lambda r: then(r) if _may_be(type(r[at]), item) else None

    @override
    def fetch(self, value: int, into: int, reader: int, index: int | None) -> Maker | None:
        def make(then: Step) -> Step:
            def fetch(r: Registers) -> Any:
                flow: Flow = r[CONTEXT].flow
                if r[value] is None:
                    return None
                found = flow.maker_of(r[value], flow.number_of(r[reader]))
                if found is None or found[1] != (index or 0):
                    return None
                if index is None and len(mutated(found[0])) != 1:
                    return None
                r[into] = found[0]
                return then(r)

            return fetch

        return make

    @override
    def used_here(self, value: int, reader: int, readings: int) -> Maker:
        def make(then: Step) -> Step:
            def check(r: Registers) -> Any:
                flow: Flow = r[CONTEXT].flow
                found = flow.readings(r[value], flow.number_of(r[reader])) if r[value] else None
                return then(r) if found == readings else None

            return check

        return make

    @override
    def is_number(self, value: Any, number: float) -> bool:
        known = array_or_none(value.payload) if isinstance(value, Weight) else None
        return known is not None and bool(uniform_number(known) == number)


def _end_of(rule: Rewrite, compiler: PatternCompiler) -> Step:
    """Return the last step of a chain: it looks at conditions, and writes the replacement."""
    subject = f"rule {rule.__name__!r}"
    border, when = foreign(GlowError, subject), rule.when
    asked, build = compiler.arguments(rule.condition_names), _builder_of(rule, compiler)
    places = _places_by_value(compiler)

    def end(r: Registers) -> Sequence[Instruction] | None:
        site: Site = r[CONTEXT]
        root: Instruction = r[ROOT]
        if not all(_is_one_value(r, several, site.flow) for several in places):
            return None
        with border:
            try:
                if when is not None and not when(*map(_given, asked(r))):
                    return None
                found = build(r)
                if found is None or found is root:
                    return None
                items = [r[at] for at in compiler.items]
                writer = InstructionWriter(root, _origins(items, site), site.buffers, subject)
                writer.write(found)
            except VerifyError as error:
                raise GlowError(
                    f"{subject}: the replacement of {root!r} does not fit: {error}"
                ) from error
        _check_written(subject, root, writer.made, site)
        return writer.made if _is_right(writer.made, items, site) else None

    return end


def _builder_of(rule: Rewrite, compiler: PatternCompiler) -> Callable[[Registers], Any]:
    template = rule.template
    if template is not None:
        return lambda r: _filled(template, lambda name: r[compiler.places[name]])
    asked, function = compiler.arguments(rule.replacement_names), rule.replacement
    return lambda r: function(*map(_given, asked(r)))


def _given(value: Any) -> Any:
    """Return *value* as functions of a rule get it: an operand as something to build with."""
    if isinstance(value, tuple) and any(isinstance(item, Buffer) for item in value):
        return tuple(map(_given, value))
    return Given(value) if isinstance(value, Buffer) else value


def _filled(pattern: Any, found: Callable[[str], Any]) -> Any:
    """Return the template *pattern* with its wildcards replaced by the values in *found*."""
    if isinstance(pattern, tuple):
        return tuple(_filled(item, found) for item in pattern)
    if isinstance(pattern, Wildcard):
        return _given(found(pattern.name))
    if not isinstance(pattern, Item):
        return pattern
    fields = {name: _filled(value, found) for name, value in pattern.fields.items()}
    return dataclasses.replace(pattern, fields=fields)


def _places_by_value(compiler: PatternCompiler) -> list[list[tuple[int, int]]]:
    """Return the registers of operands that are read several times, with those of their readers."""
    return [several for several in compiler.readings_by_name.values() if len(several) > 1]


def _is_one_value(r: Registers, readings: list[tuple[int, int]], flow: Flow) -> bool:
    """Return whether an operand is not written between those that read it."""
    buffer = r[readings[0][0]]
    if not isinstance(buffer, Buffer):
        return True
    numbers = [flow.number_of(r[reader]) for _, reader in readings]
    return flow.is_unchanged(buffer, min(numbers), max(numbers))


def _origins(items: Sequence[Instruction], site: Site) -> tuple[str, ...]:
    """Return the imported nodes that *items* do the work of; none if that is the first alone."""
    ordered = sorted(items, key=site.flow.number_of)
    names = tuple(dict.fromkeys(name for item in ordered for name in item.imported_names))
    return () if names == (items[0].name,) else names


def _check_written(
    subject: str, root: Instruction, made: Sequence[Instruction], site: Site
) -> None:
    """Raise GlowError unless *made* writes just what *root* writes, beside new activations."""
    written = {buffer for instruction in made for buffer in mutated(instruction)}
    known = {b for b in written if not (isinstance(b, Activation) and not site.flow.has(b))}
    wanted = set(mutated(root))
    if known != wanted:
        found, due = (", ".join(sorted(map(repr, each))) or "nothing" for each in (known, wanted))
        raise GlowError(
            f"{subject}: what comes instead of {root!r} writes {found}, and must write {due}"
        )


def _is_right(made: Sequence[Instruction], items: Sequence[Instruction], site: Site) -> bool:
    """Return whether *made* can stand where the first of *items* stood, and finds its operands."""
    end = site.flow.number_of(items[0])
    for instruction in made:
        for buffer in read(instruction):
            readers = [site.flow.number_of(item) for item in items if buffer in read(item)]
            if readers and not site.flow.is_unchanged(buffer, min(readers), end):
                return False
        for operand in operands_of(instruction):
            if not can_be_strided(instruction, operand, operand, site.traits):
                return False
        if not all(_may_share(instruction, *pair) for pair in _pairs(instruction)):
            return False
    return True


def _pairs(instruction: Instruction) -> Iterator[tuple[Buffer, Buffer]]:
    """Yield each result of *instruction* with what stands in each other operand."""
    operands = list(qualified_operands_of(instruction))
    for place, (qualifier, result) in enumerate(operands):
        if qualifier != "in":
            yield from ((result, b) for at, (_, b) in enumerate(operands) if at != place)


def _may_share(instruction: Instruction, result: Buffer, other: Buffer) -> bool:
    """Return whether *result* may lie where it does, beside *other*."""
    if not may_overlap(result, other):
        return True
    return may_lie_on(instruction, result, other) and is_same_region(result, other)
