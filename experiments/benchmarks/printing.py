"""Parts of pages that experiments write, and what is said in them of the machine."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import version
from pathlib import Path

from glow_nb.kernels.target import Target
from glow_nb.tools.duel.engines import PEERS, is_installed

TITLES = {"glow_nb": "glow_nb", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def written_page(text: str) -> Path:
    """Return the page that an option names: it must be there before minutes are measured for it."""
    if not (page := Path(text)).is_file():
        raise argparse.ArgumentTypeError(f"{text}: there is no such file; give a page of docs/")
    return page


def replace_part(page: Path, name: str, text: str) -> None:
    """Put *text* between the marks of *page*: ``<!-- NAME begins -->``, ``<!-- NAME ends -->``."""
    begin, end = f"<!-- {name} begins -->", f"<!-- {name} ends -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, is_there, after = rest.partition(end)
    if not is_there:
        raise SystemExit(f"{page}: the marks {begin} and {end} are not there")
    page.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")


def processor() -> str:
    """Return the name of this processor, and LLVM's for it in brackets."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = (n for n in info.read_text().splitlines() if n.startswith("model name"))
        model = next(names, model).partition(":")[2].strip() or model
    return f"{model} ({Target.host().cpu})"


def title_of(engine: str) -> str:
    """Return what people call *engine*, which is installed, and its version."""
    return f"{TITLES[engine]} {version(engine)}"


def peers() -> str:
    """Return the installed peers with their versions."""
    return ", ".join(map(title_of, filter(is_installed, PEERS)))
