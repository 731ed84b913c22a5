"""``python -m glow_nb.tools.conformance``: ONNX's own node tests on every engine, as a table.

The tests are those that the installed ``onnx`` generates, all of them. A test *passed* if the
outputs are within the suite's own tolerance; it is *unsupported* if an ``UnsupportedError`` says
so; anything else, wrong numbers above all, is *failed*.
"""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import click
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner
from rich.progress import track

from glow_nb.base.errors import GlowError, UnsupportedError
from glow_nb.base.types import ElementKind
from glow_nb.onnx_backend import ENGINES, prepare

PASSED, FAILED, UNSUPPORTED = "passed", "failed", "unsupported"
OUTCOMES = (PASSED, FAILED, UNSUPPORTED)

EXPLAINED = {
    "test_dft_inverse": "the suite expects its own rounding noise around 0",
    "test_dft_inverse_opset19": "the suite expects its own rounding noise around 0",
}
"""Tests that ask for more than the rounding of either side allows.

The results of glow_nb and of the suite both differ from the exact ones by less than the tolerance,
but by more than it from each other.
"""

ROUNDED = {"test_attention_4d_causal_fp16_expanded": 2}
"""Tests whose expected numbers are not exact either, and how many units in the last place of their
element kind results may be off: both sides round to float16 after each operator of a long function
body, and neither in the other's order. What needs this is marked in the table."""

_CRASHES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Bugs of ours: they fail their test, but not the others."""


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of one test on one engine, and the reason if it did not pass."""

    test: str
    operator: str
    engine: str
    outcome: str
    reason: str = ""


@dataclass
class Report:
    """All outcomes."""

    outcomes: list[CaseOutcome] = field(default_factory=list)

    def count(self, engine: str, operator: str | None = None) -> Counter[str]:
        """Return how many tests of *engine*, of one operator or of all, had each outcome."""
        return Counter(
            o.outcome
            for o in self.outcomes
            if o.engine == engine and operator in (None, o.operator)
        )

    @property
    def operators(self) -> list[str]:
        """The operators that were tested, in alphabetic order."""
        return sorted({o.operator for o in self.outcomes}, key=str.lower)

    @property
    def engines(self) -> list[str]:
        """The engines that were tested."""
        return list(dict.fromkeys(o.engine for o in self.outcomes))


def node_tests(match: str = "") -> list[Any]:
    """Return the suite's node tests whose names contain *match*."""
    with warnings.catch_warnings():
        # The suite computes its expected values on import, divisions by zero included.
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    return [loaded(case) for case in cases if match in case.name]


def loaded(case: Any) -> Any:
    """Return *case* with its model and data; before onnx 1.23 they lie in files."""
    if case.model is not None:
        return case
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    data_sets = [
        (_stored(path, "input", model.graph.input), _stored(path, "output", model.graph.output))
        for path in sorted(folder.glob("test_data_set_*"))
    ]
    return dataclasses.replace(case, model=model, data_sets=data_sets)


def _stored(folder: Path, role: str, values: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    """Read what a data set holds for the inputs or outputs *values* of a model."""
    found: list[Any] = []
    for index, value in enumerate(values):
        payload = (folder / f"{role}_{index}.pb").read_bytes()
        match value.type.WhichOneof("value"):
            case "sequence_type":
                found.append(numpy_helper.to_list(onnx.SequenceProto.FromString(payload)))
            case "optional_type":
                found.append(numpy_helper.to_optional(onnx.OptionalProto.FromString(payload)))
            case _:
                found.append(_tensor(payload, value))
    return found


def _tensor(payload: bytes, value: onnx.ValueInfoProto) -> Any:
    """Read a tensor; old releases store bfloat16 as the bits, in uint16."""
    array = numpy_helper.to_array(onnx.TensorProto.FromString(payload))
    declared = value.type.tensor_type.elem_type
    is_bits = array.dtype == np.uint16 and declared == onnx.TensorProto.BFLOAT16
    return array.view(ElementKind.BFLOAT16.dtype) if is_bits else array


def operators_of(cases: Iterable[Any]) -> dict[str, str]:
    """Return the operator that each test is about.

    A test whose name ends in ``_expanded`` runs the function body of an operator; it counts for
    that operator, which the test of the same name without the ending uses.
    """
    first = {case.name: _label(case.model.graph.node[0]) for case in cases}
    return {
        name: first.get(name.partition("_expanded")[0], operator)
        for name, operator in first.items()
    }


def _label(node: onnx.NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)


def run_tests(cases: Sequence[Any], engines: Sequence[str]) -> Iterator[CaseOutcome]:
    """Run every test on every engine."""
    operators = operators_of(cases)
    for case in cases:
        for engine in engines:
            outcome, reason = run_test(case, engine)
            yield CaseOutcome(case.name, operators[case.name], engine, outcome, reason)


def run_test(case: Any, engine: str) -> tuple[str, str]:
    """Return outcome and reason of one test."""
    reason = ""
    try:
        network = prepare(case.model, "CPU", engine=engine, threads=1)
        for inputs, expected in case.data_sets:
            operands, wanted = list(map(_array, inputs)), list(map(_array, expected))
            reason = check(case, operands, wanted, list(network.run(operands)))
    except UnsupportedError as error:
        return UNSUPPORTED, str(error)
    except AssertionError as error:
        return FAILED, f"wrong result: {' '.join(str(error).split())}"
    except (GlowError, *_CRASHES) as error:
        return FAILED, f"{type(error).__name__}: {error}"
    return PASSED, reason


def check(case: Any, inputs: list[Any], wanted: list[Any], found: list[Any]) -> str:
    """Raise AssertionError unless *found* is what *case* wants, or as likely as that.

    Return what was allowed beyond the suite's tolerance, mostly nothing.
    """
    judges = [judge for name, judge in RANDOM.items() if case.name.startswith(name)]
    if not judges:
        return _check_numbers(case, wanted, found)
    for want, got in zip(wanted, found, strict=True):
        np.testing.assert_equal((got.shape, got.dtype), (want.shape, want.dtype))
    for judge in judges:
        judge(case, inputs, found)
    return ""


def _check_numbers(case: Any, wanted: list[Any], found: list[Any]) -> str:
    """Raise AssertionError unless *found* is *wanted* within the suite's tolerance, or ROUNDED."""
    try:
        Runner.assert_similar_outputs(wanted, found, case.rtol, case.atol)
    except AssertionError:
        units = ROUNDED.get(case.name, 0)
        pairs = list(zip(wanted, found, strict=True))
        if not units or not all(_is_within(want, got, units) for want, got in pairs):
            raise
        kinds = ", ".join(sorted({str(want.dtype) for want in wanted}))
        return f"within {units} units in the last place of {kinds}"
    return ""


def _is_within(want: Any, got: Any, units: int) -> bool:
    """Return whether all of *got* is within *units* units in the last place of *want*."""
    if (want.shape, want.dtype) != (got.shape, got.dtype):
        return False
    distance = np.abs(want.astype(np.float64) - got.astype(np.float64))
    return bool((distance <= units * np.spacing(np.abs(want)).astype(np.float64)).all())


def _check_choices(case: Any, inputs: list[Any], found: list[Any]) -> None:
    """Check that there are zeros and ones, as many as the probabilities say.

    The function body that ONNX gives for Bernoulli makes a one where the probability is *below* a
    random number.
    """
    (probabilities,), (choices,) = inputs, found
    ones = choices == 1
    np.testing.assert_array_equal(choices, ones.astype(choices.dtype))
    _check_count(ones, 1 - probabilities if "_expanded" in case.name else probabilities)


def _check_dropout(case: Any, inputs: list[Any], found: list[Any]) -> None:
    """Check that elements are zero or scaled, as many as the ratio says, and by the mask."""
    (x, ratio, _), (y, *masks) = inputs, found
    kept = y != 0
    np.testing.assert_allclose(y, np.where(kept, x / (1 - ratio), 0), rtol=case.rtol)
    for mask in masks:
        np.testing.assert_array_equal(mask, kept)
    _check_count(kept, np.full(x.shape, 1 - ratio))


def _check_count(chosen: Any, probabilities: Any) -> None:
    """Check how many are *chosen*: more than five standard deviations off is no chance."""
    variance = (probabilities * (1 - probabilities)).sum()
    off = abs(chosen.sum() - probabilities.sum())
    np.testing.assert_array_less(off, 5 * np.sqrt(variance) + 1e-6)


RANDOM = {"test_bernoulli": _check_choices, "test_training_dropout": _check_dropout}
"""Tests of random numbers, by how their names begin, and what holds of their results.

The suite has the numbers of NumPy's generator, which ONNX does not ask for: it leaves the generator
open.
"""


def _array(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def write_markdown(report: Report, out: TextIO) -> None:
    """Write the table and the list of failures."""
    engines = report.engines
    out.write(
        "# ONNX conformance\n\n"
        f"ONNX's own node tests (`onnx.backend.test`, onnx {onnx.__version__}, opset "
        f"{onnx.defs.onnx_opset_version()}), all that the package generates, made by\n"
        "`python -m glow_nb.tools.conformance`. Unsupported means that the importer or the backend "
        "says so with an\n`UnsupportedError`; failed is everything else that did not pass.\n\n"
        "`evaluate` runs the imported graph node by node with NumPy, `interpreter` the compiled "
        "instructions\nwith NumPy, `cpu` machine code. Inputs that shapes depend on (such as the "
        "shape of a Reshape) are bound\nwhen the model first runs. ONNX leaves random numbers "
        "open: for them, element kinds, shapes, the set of\npossible values and their frequencies "
        "are compared.\n\n"
    )
    out.write(_row(["engine", *OUTCOMES, "all"]))
    out.write(_row(["---", *["---:"] * (len(OUTCOMES) + 1)]))
    for engine in engines:
        counts = report.count(engine)
        out.write(_row([engine, *(str(counts[o]) for o in OUTCOMES), str(counts.total())]))
    out.write("\n## By operator\n\nPassed / failed / unsupported.\n\n")
    out.write(_row(["operator", *engines]))
    out.write(_row(["---", *["---"] * len(engines)]))
    for operator in report.operators:
        cells = []
        for engine in engines:
            counts = report.count(engine, operator)
            cells.append(" / ".join(str(counts[o]) for o in OUTCOMES))
        out.write(_row([operator, *cells]))
    rounded = [o for o in report.outcomes if o.outcome == PASSED and o.reason]
    if rounded:
        out.write("\n## Passed beyond the suite's tolerance\n\n")
        out.write("The numbers that these tests expect are rounded as often as the results.\n\n")
        out.writelines(f"- `{o.test}` ({o.engine}): {o.reason}.\n" for o in rounded)
    out.write("\n## Failures\n\n")
    failures: dict[str, list[CaseOutcome]] = {}
    for o in report.outcomes:
        if o.outcome == FAILED:
            failures.setdefault(o.test, []).append(o)
    for test, outcomes in failures.items():
        where = ", ".join(o.engine for o in outcomes)
        why = f" Explained: {EXPLAINED[test]}." if test in EXPLAINED else ""
        out.write(f"- `{test}` ({where}): {_one_line(outcomes[0].reason)}{why}\n")
    if not failures:
        out.write("None.\n")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _one_line(text: str, limit: int = 240) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit] + " ..."


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=click.Choice(ENGINES),
    help="Who computes; may be repeated. All by default.",
)
@click.option("--match", default="", help="Run only tests whose name contains this.")
@click.option(
    "--output", type=click.Path(path_type=Path), help="Write the table here, as Markdown."
)
@click.option("--verbose", is_flag=True, help="Tell why tests are unsupported, too.")
def main(engines: tuple[str, ...], match: str, output: Path | None, verbose: bool) -> None:
    """Run ONNX's node tests and count what passed, failed and is unsupported."""
    cases = node_tests(match)
    tests = run_tests(cases, engines or ENGINES)
    total = len(cases) * len(engines or ENGINES)
    report = Report()
    for o in track(tests, "tests", total, disable=not sys.stderr.isatty()):
        report.outcomes.append(o)
        if o.outcome == FAILED or (verbose and o.outcome == UNSUPPORTED):
            click.echo(f"{o.outcome} {o.test} ({o.engine}): {_one_line(o.reason)}")
    for engine in report.engines:
        counts = report.count(engine)
        click.echo(f"{engine}: " + ", ".join(f"{counts[o]} {o}" for o in OUTCOMES))
    if output is not None:
        with output.open("w", encoding="utf-8") as out:
            write_markdown(report, out)


if __name__ == "__main__":
    main()
