"""Arrays between files and networks: ``.npy`` inputs, random inputs, ``.npz`` outputs."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import numpy as np

from glow_nb.base.conversion import converted, is_small_float
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest, listed
from glow_nb.base.types import Array, ElementKind
from glow_nb.system.regular_files import open_regular
from glow_nb.system.replaced_files import replace_file

METAVARS = {"--input": "NAME=FILE.npy", "--constant": "NAME=VALUE"}
"""The form of the values of the options that give arrays to inputs."""

_BITS_OF_BFLOAT16 = np.dtype("V2")
"""What a ``.npy`` file says of bfloat16, which its format does not know."""


def read_npy(path: str) -> Array:
    """Return the array in the ``.npy`` file at *path*, in the machine's byte order.

    Raises:
        OptionError: The file cannot be read or is no plain array of numbers.
    """
    try:
        with open_regular(path) as stream:  # NumPy would leave a broken file open
            loaded = np.load(stream, allow_pickle=False)
    except OSError as error:
        reason = error.strerror or error
        raise OptionError(f"input file {path}: cannot be read: {reason}") from error
    except (ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise OptionError(
            f"input file {path}: not a whole .npy file of numbers (pickled objects are not read); "
            "write one with numpy.save(path, array)"
        ) from error
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise OptionError(
            f"input file {path}: an archive of several arrays, as .npz files hold; give one .npy "
            "file for each input, as numpy.save(path, array) writes it"
        )
    if loaded.dtype == _BITS_OF_BFLOAT16:
        return loaded.view(ElementKind.BFLOAT16.dtype)
    return loaded.astype(loaded.dtype.newbyteorder("="), copy=False)


def read_npz(path: str) -> dict[str, Array]:
    """Return the arrays in the ``.npz`` file at *path* by name.

    Raises:
        OptionError: The file cannot be read or is no archive of arrays of numbers.
    """
    try:
        with open_regular(path) as stream:
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                raise OptionError(
                    f"data file {path}: it holds one array, as .npy files do, but must hold arrays "
                    "by name; write them with numpy.savez(path, name=array, ...)"
                )
            with loaded as archive:
                return {name: archive[name] for name in archive.files}
    except OSError as error:
        reason = error.strerror or error
        raise OptionError(f"data file {path}: cannot be read: {reason}") from error
    except (ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise OptionError(
            f"data file {path}: not a whole .npz file of numbers (pickled objects are not read); "
            "write one with numpy.savez(path, name=array, ...)"
        ) from error


def assign_inputs(assignments: Iterable[str], names: list[str]) -> dict[str, Array]:
    """Return the arrays of ``NAME=FILE.npy`` texts by input name.

    A bare file name stands for the only input. Names and paths may themselves hold ``=``: the name
    is the longest input name that the text begins with.

    Raises:
        OptionError: A name is unknown or given twice, or a file does not hold an array.
    """
    files: dict[str, str] = {}
    for text in assignments:
        name, path = split_assignment("--input", text, names)
        if not path:
            raise OptionError(f"--input {text}: it names no file; write {name}=FILE.npy")
        if name in files:
            raise OptionError(
                f"--input {text}: input {name!r} is given as {files[name]}, too; leave one of them "
                "out"
            )
        files[name] = path
    return {name: read_npy(path) for name, path in files.items()}


def split_assignment(option: str, text: str, names: list[str]) -> tuple[str, str]:
    """Return name and rest of *text*, what an *option* gives to one of the inputs called *names*.

    Raises:
        OptionError: No name fits.
    """
    fitting = [name for name in names if text.startswith(f"{name}=")]
    if fitting:
        name = max(fitting, key=len)
        return name, text[len(name) + 1 :]
    if len(names) == 1 and ("=" not in text or os.path.exists(text)):
        return names[0], text
    if "=" not in text:
        raise OptionError(
            f"{option} {text}: the network has {len(names)} inputs; write {METAVARS[option]} "
            f"with one of the names {names}"
        )
    name = text.partition("=")[0]
    raise OptionError(
        f"{option} {text}: unknown input {name!r}{closest(name, names)}; "
        f"the inputs are {listed(names)}"
    )


def member_names(names: Iterable[str]) -> dict[str, str]:
    """Return the archive's name for each array.

    It is the array's own name, except where that would be no plain relative path once the archive
    is unpacked: then it is ``output_0``, ``output_1`` ... by position.
    """
    names = list(names)
    members: dict[str, str] = {}
    for index, name in enumerate(names):
        member = name if _is_plain(name) else f"output_{index}"
        while member != name and (member in names or member in members.values()):
            member += "_"
        members[name] = member
    return members


def _is_plain(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return (
        re.fullmatch(r"[\w.:#@+/-]{1,200}", name, re.ASCII) is not None
        and name == "/".join(parts)
        and parts[0] != "/"
        and ".." not in parts
        and re.match(r"[A-Za-z]:", name) is None  # a drive
    )


def save_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write *arrays* to the archive *path*, replacing it whole.

    Kinds that the format does not know widen to float32, or to int32 for integers.

    Raises:
        GlowError: The file cannot be written.
    """
    members = member_names(arrays)

    def write(place: Path) -> None:
        with zipfile.ZipFile(place, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{members[name]}.npy", "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, _storable(array), allow_pickle=False)

    replace_file(path, write)


def _storable(array: Array) -> Array:
    if array.dtype.isbuiltin == 1:
        return array
    kind = ElementKind.of(array.dtype)
    is_integer = kind.is_storage and not is_small_float(kind)
    return converted(array, ElementKind.INT32 if is_integer else ElementKind.FLOAT32)
