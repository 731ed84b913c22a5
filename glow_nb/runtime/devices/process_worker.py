"""The process of a process device: ``python -m ... SOCKET PARENT BEAT PROCESSORS``.

It loads programs that lie in memory which it shares with its parent, and runs them, one run after
another, on inputs and outputs that lie there, too. It knows neither numba nor the graph. Every BEAT
seconds a thread of its own says that the process is alive, whatever the others are doing.

It ends with its parent, or when the other end of its socket is closed.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import threading
import time
import weakref
from contextlib import ExitStack
from dataclasses import dataclass

from glow_nb.base.errors import GlowError
from glow_nb.base.memory_limit import within_memory
from glow_nb.codegen.load_native import load
from glow_nb.codegen.loaded_program import LoadedProgram
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.runtime.devices.channel import Channel, Frame, Verb, numbers_of, text_of
from glow_nb.runtime.devices.shared_memory import OpenSlots, Slots, map_for_reading
from glow_nb.system.state_store import StateStore

SLOTS = 2
"""Runs of which the arrays lie here: while one works, another one comes, or its results go."""

_PR_SET_PDEATHSIG = 1


@dataclass
class _Network:
    """A network that has been loaded."""

    name: str
    program: LoadedProgram
    slots: Slots | OpenSlots
    state: StateStore | None

    def run(self, slot: int, sizes: str) -> None:
        """Run on the arrays of *slot*; *sizes* has the numbers of its open sizes."""
        inputs, outputs = self.slots.arrays(slot, numbers_of(sizes))
        with within_memory(f"network {self.name!r}"):
            self.program.copy_fed(inputs, outputs)
            self.program.run_into(inputs, outputs, self.state)


def main() -> None:
    """Do what the parent orders until it has gone."""
    descriptor, parent, beat, *processors = sys.argv[1:]
    if processors:
        os.sched_setaffinity(0, map(int, processors))
    channel = Channel(socket.socket(fileno=int(descriptor)))
    _end_with(int(parent))
    gc.freeze()  # imported objects stay: exclude them from garbage collection
    threading.Thread(target=_beat, args=(channel, float(beat)), daemon=True).start()
    try:
        serve(channel)
    except BrokenPipeError:  # the parent is gone
        return


def _beat(channel: Channel, seconds: float) -> None:
    """Say now, and every *seconds* seconds, that this process is alive."""
    with contextlib.suppress(OSError):  # the other end has gone
        while True:
            channel.send(Frame(Verb.ALIVE))
            time.sleep(seconds)


def serve(channel: Channel) -> None:
    """Answer each frame of *channel* until its other end has gone."""
    networks: dict[int, _Network] = {}
    while frame := channel.receive():
        verb, number, slot, text = frame
        try:
            if verb == Verb.RUN:
                networks[number].run(slot, text)
                answer = Frame(Verb.DONE, number, slot)
            elif verb == Verb.LOAD:
                networks[number] = _load(text, channel)
                answer = Frame(Verb.LOADED, number)
            else:
                del networks[number]
                continue
        except GlowError as error:
            answer = Frame(Verb.FAILED, number, slot, text_of(error))
        channel.send(answer)


def _load(name: str, channel: Channel) -> _Network:
    """Load the network *name* from the program and the slots whose descriptors follow."""
    program, *files = channel.receive_descriptors()
    keep = ExitStack()
    for file in files:
        keep.callback(os.close, file)
    try:
        with within_memory("loading"):
            native = NativeProgram.from_bytes(map_for_reading(program))
            inputs = [binding.type for binding in native.inputs]
            outputs = [binding.type for binding in native.outputs]
            state = StateStore(native.state) if native.state else None
            slots: Slots | OpenSlots
            if native.open is None:
                slots = Slots(files[0], inputs, outputs, SLOTS)
            else:
                slots = OpenSlots(files, inputs, outputs, native.open.symbols)
                weakref.finalize(slots, keep.pop_all().close)
            return _Network(name, load(native), slots, state)
    finally:
        os.close(program)
        keep.close()


def _end_with(parent: int) -> None:
    """Let this process end when *parent* does, whatever it is doing, even if it is stopped."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was faster
            os._exit(0)
    else:
        threading.Thread(target=_look_for, args=(parent,), daemon=True).start()


def _look_for(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    main()
