"""The notebooks of the tutorial: what their cells print now, beside what they were saved with.

::

    python -m website.lessons docs/tutorial/*.ipynb           # runs them, and saves the outputs
    python -W error -m website.lessons --check docs/tutorial/*.ipynb

A cell with the tag ``varies`` prints times, or what depends on the processor: it is run, and its
outputs are not compared. Nothing of Jupyter is needed; the cells of a notebook share the names of
a module ``__main__``, and the last expression of a cell is shown.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
import linecache
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

Cell = dict[str, Any]
Output = dict[str, Any]

VARIES = "varies"
"""The tag of a cell whose outputs are not the same each time."""


class LessonError(Exception):
    """A cell ended with an error, or printed something else than it was saved with."""


def run_cells(path: Path) -> Iterator[tuple[Cell, list[Output]]]:
    """Yield each cell of code of a notebook with what it printed, in the folder of the notebook.

    Raises:
        LessonError: A cell raised an error.
    """
    module, before = ModuleType("__main__"), sys.modules["__main__"]
    code = [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]
    os.environ.setdefault("MPLBACKEND", "agg")
    sys.modules["__main__"] = module
    try:
        with contextlib.chdir(path.parent), warnings.catch_warnings():
            for number, cell in enumerate(code, 1):
                yield cell, run_cell("".join(cell["source"]), module, f"{path.stem}, cell {number}")
    finally:
        sys.modules["__main__"] = before


def run_cell(source: str, module: ModuleType, name: str) -> list[Output]:
    """Run the *source* of a cell, which errors call *name*; return its outputs."""
    printed = io.StringIO()
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        tree = ast.parse(source, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, name, "exec"), module.__dict__)
            shown = None
            if isinstance(last, ast.Expr):
                expression = ast.Expression(last.value)
                shown = eval(compile(expression, name, "eval"), module.__dict__)
    except Exception as error:
        told = "".join(traceback.format_exception(error, chain=False))
        raise LessonError(f"{name}:\n{told}") from None
    outputs: list[Output] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue()})
    if shown is not None:
        outputs.append(_output("execute_result", _data_of(shown)))
    return [*outputs, *(_output("display_data", picture) for picture in _pictures())]


def _output(kind: str, data: dict[str, str]) -> Output:
    number: dict[str, None] = {"execution_count": None} if kind == "execute_result" else {}
    return {"output_type": kind, "data": data, "metadata": {}, **number}


def _data_of(value: object) -> dict[str, str]:
    """Return a *value* as Jupyter shows it."""
    html = getattr(value, "_repr_html_", None)
    return {"text/plain": repr(value), **({"text/html": html()} if html is not None else {})}


def _pictures() -> Iterator[dict[str, str]]:
    """Yield the figures of matplotlib that a cell has left, and close them."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums() if pyplot else ():
        file = io.BytesIO()
        settings = {"bbox_inches": "tight", "dpi": 90, "metadata": {"Software": None}}
        pyplot.figure(number).savefig(file, format="png", **settings)
        pyplot.close(number)
        encoded = base64.b64encode(file.getvalue()).decode()
        yield {"image/png": encoded, "text/plain": "<a figure>"}


def read(path: Path) -> dict[str, Any]:
    """Return the content of a notebook.

    Raises:
        LessonError: The file cannot be read, or is no notebook.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        content["cells"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LessonError(f"{path}: no notebook that can be read: {error!r}") from error
    return content


def save_outputs(path: Path) -> None:
    """Run a notebook, and save it with what its cells print."""
    outputs = [found for _, found in run_cells(path)]
    notebook = read(path)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, found) in enumerate(zip(code, outputs, strict=True), 1):
        cell["execution_count"] = number
        cell["outputs"] = [
            {**output, **({"execution_count": number} if "execution_count" in output else {})}
            for output in found
        ]
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def check_outputs(path: Path) -> None:
    """Run a notebook; raise LessonError unless its cells print what it was saved with."""
    for cell, found in run_cells(path):
        saved, varies = cell["outputs"], VARIES in cell["metadata"].get("tags", ())
        if [each["output_type"] for each in saved] != [each["output_type"] for each in found] or (
            not varies and texts_of(saved) != texts_of(found)
        ):
            source = "".join(cell["source"])
            raise LessonError(
                f"{path.name}: a cell prints something else than it was saved with; save it by "
                f"python -m website.lessons {path}\n{source}\n--- saved\n{texts_of(saved)}\n"
                f"--- now\n{texts_of(found)}"
            )


def texts_of(outputs: Sequence[Output]) -> str:
    """Return what *outputs* show as text."""
    parts = (each["text"] if "text" in each else each["data"]["text/plain"] for each in outputs)
    return "\n".join("".join(part) for part in parts)


def main() -> None:
    """Run the notebooks of the command line."""
    parser = argparse.ArgumentParser(prog="python -m website.lessons", description=__doc__)
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="compare, and save nothing")
    arguments = parser.parse_args()
    try:
        for path in arguments.notebooks:
            (check_outputs if arguments.check else save_outputs)(path.resolve())
    except LessonError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
