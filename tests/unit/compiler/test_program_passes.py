"""Every instruction pass of the package can be named in a pipeline."""

from importlib import import_module
from pkgutil import iter_modules

from glow_nb.compiler.program_passes import PROGRAM_PASSES
from glow_nb.fuse.stack_instructions import stack_instructions
from glow_nb.llir import optimize


def test_every_file_of_a_pass_is_registered_under_its_name() -> None:
    names = [module.name for module in iter_modules(optimize.__path__)]
    written = {name: getattr(import_module(f"{optimize.__name__}.{name}"), name) for name in names}
    written[stack_instructions.__name__] = stack_instructions
    ours = {
        name: run
        for name, run in PROGRAM_PASSES.passes.items()
        if run.__module__.startswith(("glow_nb.llir.", "glow_nb.fuse."))
    }
    assert ours == written
