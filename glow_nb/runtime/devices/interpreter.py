"""A device that computes with NumPy: slow, and the reference of all others."""

from __future__ import annotations

from functools import partial

from typing_extensions import override

from glow_nb.backends.interpreter import Interpreter
from glow_nb.base.errors import CompileError
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.thread_device import Runner, ThreadDevice
from glow_nb.system.state_store import StateStore


class InterpreterDevice(ThreadDevice):
    """Runs allocated programs in this process by the interpreter, one run at a time."""

    @override
    def _load(self, network: Deployable) -> Runner:
        if isinstance(network.program, NativeProgram):
            raise CompileError(
                f"{network.name!r} is machine code, the device interprets programs; compile it "
                "with the backend 'interpreter'"
            )
        program = Interpreter().compile(network.program)
        state = StateStore(network.program.state) if network.program.state else None
        return partial(program.run, state=state)
