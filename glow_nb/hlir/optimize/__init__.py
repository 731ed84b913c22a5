"""The graph passes, one file each, named like the pass; importing this registers them all."""

from importlib import import_module
from pkgutil import iter_modules

from glow_nb.hlir.passes import GRAPH_PASSES

__all__ = ["GRAPH_PASSES"]

for _file in iter_modules(__path__, f"{__name__}."):
    import_module(_file.name)
