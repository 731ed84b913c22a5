"""Many kernel sources to objects: from the cache, in this process, or in parallel workers.

numba compiles under one global lock, so parallel means processes. A worker costs START_SECONDS
before its first kernel; how many pay is decided from the amount of text to compile. This process
compiles only if no worker can be started.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from glow_nb.base.dot_instruction import calls_dot_from_outside
from glow_nb.base.errors import OptionError
from glow_nb.base.progress import report, shown
from glow_nb.codegen.cache import ObjectCache, object_key
from glow_nb.codegen.in_progress import KernelClaims, Result
from glow_nb.codegen.kernel_compiler import kernel_compiler
from glow_nb.codegen.kernel_locks import KernelLocks
from glow_nb.codegen.workers import compile_in_workers, idle_workers
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.system.cores import available_cores

START_SECONDS = 0.6
"""Measured: from starting a worker to its first answer, most of it importing numba."""

SECONDS_PER_KERNEL, SECONDS_PER_CHARACTER = 0.08, 1e-4
"""Measured roughly: what a kernel costs to compile, by the length of its text."""

MOST_WORKERS = 16
"""Each holds about 150 MB."""

WORKERS_VARIABLE = "GLOW_NB_COMPILERS"
"""The environment variable that names another number; 0 compiles in the user's process."""


def compile_objects(
    sources: Sequence[KernelSource],
    target: Target,
    *,
    cache: ObjectCache,
    workers: int | None = None,
) -> dict[str, bytes]:
    """Return the object of each source by its symbol, in the order of *sources*.

    The order does not tell which of them the cache had, so that what is linked is the same bytes.
    Equal sources are compiled once, also if several threads ask for them at the same time.

    Args:
        sources: Kernels to compile, in any order.
        target: Processor to compile for.
        cache: Where objects are looked up and kept.
        workers: Number of worker processes, 0 for none; None chooses by the cores and the work. All
            threads together never have more at work than there are cores.

    Raises:
        CompileError: A source does not compile, or a worker died of it.
    """
    missing = {source.symbol: source for source in sources}
    objects: dict[str, bytes] = {}
    while missing:  # again what another thread gave up
        objects |= _load_or_compile(missing.values(), target, cache, workers)
        missing = {symbol: source for symbol, source in missing.items() if symbol not in objects}
    return {source.symbol: objects[source.symbol] for source in sources}


def _load_or_compile(
    sources: Iterable[KernelSource], target: Target, cache: ObjectCache, workers: int | None
) -> dict[str, bytes]:
    """Return objects by symbol, from the cache, from here, or as others make them.

    What other threads and processes are making is waited for when all else is done; what a thread
    then gives up, as after an error, is left out.
    """
    objects: dict[str, bytes] = {}
    own: dict[KernelSource, str] = {}
    elsewhere: dict[KernelSource, str] = {}
    theirs: dict[str, Result] = {}
    with KernelClaims() as claims, KernelLocks(cache.folder) as locks:
        for source in sources:
            symbol, key = source.symbol, _key(source, target)
            result = claims.claim((symbol, key))
            if result is not None:
                theirs[symbol] = result
            elif (payload := _kept(source, key, cache, locks)) is not None:
                objects[symbol] = payload
                claims.finish((symbol, key), payload)
            elif calls_dot_from_outside(source.text) or locks.has(key):
                own[source] = key
            else:
                elsewhere[source] = key
        total = len(own) + len(elsewhere) + len(theirs)
        if not total:
            return objects
        with shown("compiling"):
            report("kernels", 0, total)
            compiled = partial(
                _compiled, target=target, cache=cache, workers=workers, claims=claims, locks=locks
            )
            made = chain(
                compiled(own),
                _made_elsewhere(elsewhere, compiled, cache, claims, locks),
                _awaited(theirs),
            )
            for done, (symbol, payload) in enumerate(made, 1):
                objects[symbol] = payload
                report("kernels", done, total)
    return objects


def _compiled(
    keys: Mapping[KernelSource, str],
    target: Target,
    cache: ObjectCache,
    workers: int | None,
    claims: KernelClaims,
    locks: KernelLocks,
) -> Iterator[tuple[str, bytes]]:
    """Yield each symbol of the sources in *keys* with its object; keep it, and end its claims."""
    longest_first = sorted(keys, key=lambda source: -len(source.text))
    here = [source for source in longest_first if calls_dot_from_outside(source.text)]
    anywhere = [source for source in longest_first if source not in here]
    if workers is None:
        workers = choose_workers(anywhere)
    made = chain(_compile_all(anywhere, target, workers), _compile_all(here, target, 0))
    for source, payload in made:
        if not calls_dot_from_outside(source.text):
            cache.store(source.symbol, keys[source], payload)
        locks.release(keys[source])
        claims.finish((source.symbol, keys[source]), payload)
        yield source.symbol, payload
    cache.trim_after(keys.values())


def _made_elsewhere(
    keys: Mapping[KernelSource, str],
    compiled: Callable[[Mapping[KernelSource, str]], Iterator[tuple[str, bytes]]],
    cache: ObjectCache,
    claims: KernelClaims,
    locks: KernelLocks,
) -> Iterator[tuple[str, bytes]]:
    """Yield each symbol with its object when another process has made it; make what none makes."""
    for source, key in keys.items():
        payload = locks.wait_for(key, partial(cache.load, source.symbol, key))
        if payload is None:
            yield from compiled({source: key})
            continue
        claims.finish((source.symbol, key), payload)
        yield source.symbol, payload


def _awaited(results: Mapping[str, Result]) -> Iterator[tuple[str, bytes]]:
    """Yield each symbol with its object when another thread has made it; leave out the others."""
    for symbol, result in results.items():
        payload = result.result()
        if payload is not None:
            yield symbol, payload


def _kept(source: KernelSource, key: str, cache: ObjectCache, locks: KernelLocks) -> bytes | None:
    """Return the object of *source* from *cache*; lock it for this process if there is none.

    What calls a dot instruction of the user's is not kept, and compiled in this process: others
    know nothing of it, and it may be another one next time.
    """
    if calls_dot_from_outside(source.text):
        return None
    payload = cache.load(source.symbol, key)
    if payload is None and locks.take(key):
        payload = cache.load(source.symbol, key)  # which another process may have stored meanwhile
        if payload is not None:
            locks.release(key)
    return payload


def _key(source: KernelSource, target: Target) -> str:
    kinds = ",".join(kind.value for kind in source.arguments)
    return object_key(source.text, f"{kinds} with lines" if source.has_lines else kinds, target)


def most_workers() -> int:
    """Return how many workers there may be.

    Raises:
        OptionError: The environment names no such number.
    """
    chosen = os.environ.get(WORKERS_VARIABLE)
    if not chosen:
        return MOST_WORKERS
    if not (chosen.isdecimal() and len(chosen) < 5):
        raise OptionError(
            f"{WORKERS_VARIABLE}={chosen!r:.40}: no number of processes that compile; "
            f"give 0 to compile in the process itself, or up to 9999"
        )
    return int(chosen)


def choose_workers(sources: Sequence[KernelSource]) -> int:
    """Return the number of workers that should finish *sources* soonest.

    It is one at least, if there may be any: LLVM ends the process when it finds itself at fault,
    and that must not be the user's.

    Raises:
        OptionError: The environment names no number of workers.
    """
    work = sum(SECONDS_PER_KERNEL + SECONDS_PER_CHARACTER * len(s.text) for s in sources)
    idle = idle_workers()

    def seconds(count: int) -> float:
        # Half a second of one core per worker is worth less than the same time of waiting.
        start = 0.0 if count <= idle else START_SECONDS + 0.02 * count
        return start + work / count

    most = min(available_cores(), len(sources), most_workers())
    return min(range(1, most + 1), key=lambda count: (seconds(count), -count), default=0)


def _compile_all(
    sources: Sequence[KernelSource], target: Target, workers: int
) -> Iterator[tuple[KernelSource, bytes]]:
    """Yield each source with its object, in the order in which they are done."""
    waiting = list(sources)
    if workers > 0:
        for source, payload in compile_in_workers(sources, target, workers):
            waiting.remove(source)
            yield source, payload
    if waiting:  # no workers wanted, or none could be started
        compile_kernel = kernel_compiler()
        for source in waiting:
            yield source, compile_kernel(source, target)
