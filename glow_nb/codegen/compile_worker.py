"""A compile worker: ``python -m glow_nb.codegen.compile_worker DESCRIPTOR``, fed through pipes.

One frame is a length of eight bytes and a pickle of our own classes; both ends are this package.
The worker says ``READY`` once numba is imported, then answers each ``(source, target)`` with
``("object", bytes)`` or ``("error", message)`` on the pipe DESCRIPTOR, and ends when its standard
input does. What anything prints goes elsewhere.
"""

from __future__ import annotations

import gc
import os
import pickle
import struct
import sys
from typing import IO, Any

READY = ("ready", None)

_LENGTH = struct.Struct("<Q")


def write_frame(pipe: IO[bytes], content: Any) -> None:
    """Send one picklable value."""
    data = pickle.dumps(content)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> Any:
    """Return the next value; raise EOFError if the other end has closed or died."""
    header = _read_exactly(pipe, _LENGTH.size)
    return pickle.loads(_read_exactly(pipe, _LENGTH.unpack(header)[0]))


def _read_exactly(pipe: IO[bytes], count: int) -> bytes:
    data = pipe.read(count)
    if len(data) < count:
        raise EOFError
    return data


def main() -> None:
    """Compile what arrives on standard input until it ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(int(sys.argv[1]), "wb")

    from glow_nb.base.errors import CompileError
    from glow_nb.codegen.kernel_compiler import kernel_compiler

    compile_kernel = kernel_compiler()
    gc.freeze()  # imported objects stay: exclude them from garbage collection
    write_frame(answers, READY)
    while True:
        try:
            source, target = read_frame(requests)
        except EOFError:
            return
        try:
            write_frame(answers, ("object", compile_kernel(source, target)))
        except CompileError as error:
            write_frame(answers, ("error", str(error)))


if __name__ == "__main__":
    main()
