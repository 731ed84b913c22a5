"""The contents of a report, as plain data: it is embedded in the page, and read from there again.

Things of a part are named by their numbers in its lists: an instruction names the lowered nodes
that it computes, a call its instruction and its kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field

STAGES = ("model", "graph", "lowered", "program", "kernels")
"""The stages of a compilation, in the order in which one is made of the other."""


@dataclass(frozen=True)
class Item:
    """One thing of a stage: a node, an instruction, or a kernel.

    Attributes:
        name: The name in the stage.
        kind: The operator, the opcode, or the family of the kernel.
        type: The types of its results; empty if they are not known.
        text: Its text in the language of the stage.
        origins: The nodes of the model that it does the work of, by number.
        made_of: The items of the stage before that it was made of, by number, where that is known
            more precisely than by origins.
    """

    name: str
    kind: str
    type: str
    text: str
    origins: tuple[int, ...] = ()
    made_of: tuple[int, ...] = ()


@dataclass(frozen=True)
class Stage:
    """A compilation at one level.

    Attributes:
        key: One of :data:`STAGES`.
        title: The title on the page.
        says: A sentence that says what it is.
        items: The items, in order.
        missing: Why it has no items; empty if it has some.
    """

    key: str
    title: str
    says: str
    items: tuple[Item, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class Alternative:
    """A way to compute a layer, as the compiler weighed it.

    Attributes:
        plan: The algorithm and its settings.
        cycles: The estimated cycles on the machine that it was compiled for.
        chosen: Whether the layer is computed so.
        note: Why it is chosen or not.
    """

    plan: str
    cycles: float
    chosen: bool
    note: str = ""


@dataclass(frozen=True)
class Time:
    """The time of a call, in seconds, beside the limits of the machine.

    Attributes:
        minimum: The shortest time of all runs.
        median: The median of all runs.
        limit: The least time that the measured limits allow; 0 if they are not known.
        bound: "arithmetic" or "memory", whichever limits it; empty if that is not known.
        peak: The dot instruction whose peak counts; empty for multiply-adds of ``float32``.
        level: The level of the memory that takes most of the time of its bytes.
    """

    minimum: float
    median: float
    limit: float = 0.0
    bound: str = ""
    peak: str = ""
    level: str = ""


@dataclass(frozen=True)
class Call:
    """One call of a kernel: what an instruction costs.

    Attributes:
        instruction: Its number in the program.
        kernel: The number of its kernel.
        plan: The plan of the kernel; empty if there is no choice.
        threads: Threads that share it.
        estimated_ns: About how long one thread takes, in nanoseconds; 0 if there is no estimate.
        scratch_bytes: Working memory for each thread.
        flops: Operations of the operators; a multiply-add is two.
        executed_flops: Operations that the kernel carries out.
        constant_bytes: Bytes of weights that it reads.
        read_bytes: Other bytes that it reads.
        written_bytes: Bytes that it writes.
        alternatives: The candidates for the layer, the one with the least estimate first.
        time: The measured time; None if it was not measured.
    """

    instruction: int
    kernel: int
    plan: str
    threads: int
    estimated_ns: float
    scratch_bytes: int
    flops: int
    executed_flops: int
    constant_bytes: int
    read_bytes: int
    written_bytes: int
    alternatives: tuple[Alternative, ...] = ()
    time: Time | None = None


@dataclass(frozen=True)
class PassRow:
    """One step of the compiler that ran.

    Attributes:
        name: The step.
        level: "graph" or "program": what it made.
        seconds: The time that it took, with the verification after it.
        changed: Whether it changed anything.
        removed: Lines that are gone.
        added: Lines that are new.
        constants: The change of the number of constants.
        items: Nodes or instructions after it.
        does: A line that says what it does.
        lines: The difference: lines that begin with ``-``, ``+``, a blank, or ``@`` where lines are
            left out.
    """

    name: str
    level: str
    seconds: float
    changed: bool
    removed: int = 0
    added: int = 0
    constants: int = 0
    items: int = 0
    does: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Life:
    """An activation in the arena.

    Attributes:
        name: Its name in the program.
        type: Its type.
        kind: The kind of instruction that writes it.
        begin: The first instruction that needs it.
        end: One past the last.
        offset: Bytes from the beginning of the arena.
        size: Bytes that it takes.
        writers: The instructions that write it, by number: the first one, those that write other
            parts of it, and those that change it in place.
    """

    name: str
    type: str
    kind: str
    begin: int
    end: int
    offset: int
    size: int
    writers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Memory:
    """The memory of a program, in bytes.

    Attributes:
        arena: The block that holds all activations.
        lower_bound: The largest sum of activations that are live at one time.
        unshared: The size of the activations if none shared memory.
        constants: Weights, as the kernels read them.
        scratch: Working memory of the kernels, for all threads.
        state: The memory that stays from run to run.
        lives: The activations, the largest of them if there are very many.
        left_out: The number of activations that are not among these.
    """

    arena: int = 0
    lower_bound: int = 0
    unshared: int = 0
    constants: int = 0
    scratch: int = 0
    state: int = 0
    lives: tuple[Life, ...] = ()
    left_out: int = 0


@dataclass(frozen=True)
class WeightRow:
    """A weight of the program.

    Attributes:
        name: Its name.
        type: Its type, as the kernels read it.
        size: Bytes that it takes.
        readers: The instructions that read it, by number.
    """

    name: str
    type: str
    size: int
    readers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        title: The title.
        columns: Their names; one that begins with ``#`` has numbers.
        rows: The cells of each row.
        note: A sentence below it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Roof:
    """The limits of a machine, as a roofline shows them.

    Attributes:
        peaks: The instruction of each peak, and its operations a second.
        levels: The levels of memory, and the bytes a second that can be read from each.
        raised: The instructions whose peak a kernel exceeded: these peaks are the rate of the
            kernel.
        machine: The processor, its threads, caches and bandwidths: names and values.
    """

    peaks: tuple[tuple[str, float], ...]
    levels: tuple[tuple[str, float], ...]
    raised: tuple[str, ...] = ()
    machine: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Measurement:
    """Times of whole runs, in seconds.

    Attributes:
        runs: The number of runs with time stamps.
        minimum: The shortest of these.
        median: Their median.
        plain: The shortest of the ordinary runs in turn with them.
        inputs: The feeds: "random numbers", or "given arrays".
        roof: The limits of the machine; None if they are not known.
        plain_median: The median of the ordinary runs; 0 in pages of earlier versions.
        in_turn: Whether the other network of a comparison ran in turn with it.
    """

    runs: int
    minimum: float
    median: float
    plain: float
    inputs: str
    roof: Roof | None = None
    plain_median: float = 0.0
    in_turn: bool = False


@dataclass(frozen=True)
class Part:
    """One program of a compilation.

    Attributes:
        title: The title, if the network has several programs; else empty.
        stages: The levels, in the order of :data:`STAGES`.
        calls: The cost of each instruction, in order.
        sources: The source of each kernel, by its number.
        passes: The steps of the compiler, in order.
        no_passes: Why there are none; empty if there are some.
        memory: The memory that it needs.
        weights: Its weights, the largest first.
        tables: Further tables: sizes, guards, precision, drift.
        measurement: Times of whole runs; None if they were not taken.
        unmeasured: Why there is none; empty if there is one.
    """

    title: str
    stages: tuple[Stage, ...]
    calls: tuple[Call, ...] = ()
    sources: tuple[str, ...] = ()
    passes: tuple[PassRow, ...] = ()
    no_passes: str = ""
    memory: Memory = field(default_factory=Memory)
    weights: tuple[WeightRow, ...] = ()
    tables: tuple[Table, ...] = ()
    measurement: Measurement | None = None
    unmeasured: str = ""


@dataclass(frozen=True)
class Compilation:
    """A network, level by level.

    Attributes:
        title: The title on the page.
        facts: The model, target and options that it was compiled from: names and values.
        parts: Its programs.
        left_out: Programs that are not shown.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    parts: tuple[Part, ...]
    left_out: int = 0


@dataclass(frozen=True)
class Match:
    """An item of one compilation beside that of another.

    Attributes:
        left: Its number in the first; -1 if only the second has it.
        right: Its number in the second; -1 if only the first has it.
        same: Whether their texts are equal.
    """

    left: int
    right: int
    same: bool = False


@dataclass(frozen=True)
class Comparison:
    """The first programs of two compilations, side by side.

    Attributes:
        stages: The items of each stage that belong together, by the key of the stage.
        facts: The facts about both: name, first, second.
        accuracy: The difference of the outputs on the same inputs; None if they were not run.
    """

    stages: dict[str, tuple[Match, ...]]
    facts: tuple[tuple[str, str, str], ...]
    accuracy: Table | None = None


@dataclass(frozen=True)
class Report:
    """All that a page shows.

    Attributes:
        title: The title of the page.
        version: The version of glow_nb that wrote it.
        compilations: One, or two that are compared.
        comparison: The comparison of both; None if there is one compilation.
    """

    title: str
    version: str
    compilations: tuple[Compilation, ...]
    comparison: Comparison | None = None
