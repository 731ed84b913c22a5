"""How figures write graphs: in Graphviz' language, and the picture that it makes of them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from glow_nb.hlir.dot import print_dot
from glow_nb.hlir.graph import Function
from glow_nb.system.replaced_files import replace_file


def write_graph(function: Function, path: Path, *, in_registers: Collection[str] = ()) -> None:
    """Write *function* with its constants to the file *path*, and a picture if Graphviz is there.

    The picture is beside it, ``NAME.png`` for ``NAME.dot``. Values *in_registers* are dotted.
    """
    text = print_dot(function, constants=True, in_registers=in_registers)
    replace_file(path, lambda place: place.write_text(text, encoding="utf-8"))
    picture = path.with_suffix(".png")
    if shutil.which("dot") is None:
        print(f"wrote {path}; Graphviz draws it: dot -Tpng {path} -o {picture}")
        return
    subprocess.run(["dot", "-Tpng", path, "-o", picture], check=True)
    print(f"wrote {path} and {picture}")
