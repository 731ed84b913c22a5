"""Which variant of a bundle this processor can run, as LLVM text: asked of ``cpuid``.

What the system must save of registers at a change of threads is asked of ``xgetbv``. If a variant
has kernels on tile registers, and the processor has these, Linux is asked for the right to use
them, as :mod:`glow_nb.system.tile_registers` does; other variants never ask, and run on processors
without tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from glow_nb.kernels.target import TILE_FEATURES, Target

TILES_NOT_GIVEN = -2
"""What is chosen where the system refuses tiles, and all variants that could run use them."""

_WORDS = ("leaf1_cx", "leaf1_dx", "leaf7_bx", "leaf7_cx", "leaf7_dx", "leaf71_ax", "ext_cx", "xcr0")

_BITS: dict[str, dict[str, int]] = {
    "leaf1_cx": {
        **{"sse3": 0, "pclmul": 1, "ssse3": 9, "fma": 12, "cx16": 13, "sse4.1": 19, "sse4.2": 20},
        **{"movbe": 22, "popcnt": 23, "aes": 25, "xsave": 26, "avx": 28, "f16c": 29},
    },
    "leaf1_dx": {"sse": 25, "sse2": 26},
    "leaf7_bx": {
        **{"bmi": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "adx": 19},
        **{"avx512ifma": 21, "avx512cd": 28, "sha": 29, "avx512bw": 30, "avx512vl": 31},
    },
    "leaf7_cx": {
        **{"avx512vbmi": 1, "avx512vbmi2": 6, "gfni": 8, "vaes": 9, "vpclmulqdq": 10},
        **{"avx512vnni": 11, "avx512bitalg": 12, "avx512vpopcntdq": 14},
    },
    "leaf7_dx": {
        **{"avx512vp2intersect": 8, "amx-bf16": 22, "avx512fp16": 23, "amx-tile": 24},
        **{"amx-int8": 25},
    },
    "leaf71_ax": {"avxvnni": 4, "avx512bf16": 5, "avxifma": 23},
    "ext_cx": {"sahf": 0, "lzcnt": 5, "sse4a": 6, "xop": 11, "fma4": 16},
}
"""Where ``cpuid`` says what code of ours may use: leaf and register, and the bit."""

_SAVED = {"avx512": 0xE6, "amx": 0x60000, "avx": 0x6, "fma": 0x6, "f16c": 0x6}
"""What the system must save, by how the name of a feature begins."""

_QUESTION = (
    'call {{ i32, i32, i32, i32 }} asm sideeffect "cpuid", '
    '"={{ax}},={{bx}},={{cx}},={{dx}},{{ax}},{{cx}},~{{dirflag}},~{{fpsr}},~{{flags}}"'
    "(i32 {leaf}, i32 {part})"
)

_ASK = f"""
  %leaf0 = {_QUESTION.format(leaf=0, part=0)}
  %most = extractvalue {{ i32, i32, i32, i32 }} %leaf0, 0
  %leaf1 = {_QUESTION.format(leaf=1, part=0)}
  %leaf1_cx = extractvalue {{ i32, i32, i32, i32 }} %leaf1, 2
  %leaf1_dx = extractvalue {{ i32, i32, i32, i32 }} %leaf1, 3
  %leaf7 = {_QUESTION.format(leaf=7, part=0)}
  %has7 = icmp uge i32 %most, 7
  %mask7 = sext i1 %has7 to i32
  %parts7_any = extractvalue {{ i32, i32, i32, i32 }} %leaf7, 0
  %parts7 = and i32 %parts7_any, %mask7
  %bx7 = extractvalue {{ i32, i32, i32, i32 }} %leaf7, 1
  %leaf7_bx = and i32 %bx7, %mask7
  %cx7 = extractvalue {{ i32, i32, i32, i32 }} %leaf7, 2
  %leaf7_cx = and i32 %cx7, %mask7
  %dx7 = extractvalue {{ i32, i32, i32, i32 }} %leaf7, 3
  %leaf7_dx = and i32 %dx7, %mask7
  %leaf71 = {_QUESTION.format(leaf=7, part=1)}
  %has71 = icmp uge i32 %parts7, 1
  %mask71 = sext i1 %has71 to i32
  %ax71 = extractvalue {{ i32, i32, i32, i32 }} %leaf71, 0
  %leaf71_ax = and i32 %ax71, %mask71
  %ext = {_QUESTION.format(leaf="u0x80000001", part=0)}
  %ext_cx = extractvalue {{ i32, i32, i32, i32 }} %ext, 2
  %osxsave = and i32 %leaf1_cx, 134217728
  %saves = icmp ne i32 %osxsave, 0
  br i1 %saves, label %saved, label %compare
saved:
  %xcr = call {{ i32, i32 }} asm sideeffect "xgetbv",
    "={{ax}},={{dx}},{{cx}},~{{dirflag}},~{{fpsr}},~{{flags}}"(i32 0)
  %xcr_ax = extractvalue {{ i32, i32 }} %xcr, 0
  br label %compare
compare:
  %xcr0 = phi i32 [ 0, %start ], [ %xcr_ax, %saved ]
""".replace("u0x80000001", str(0x80000001 - (1 << 32)))


_REQUEST = """
  br i1 {wants}, label %request, label %decide
request:
  %answer = call i64 asm sideeffect "syscall",
    "={{ax}},{{ax}},{{di}},{{si}},~{{rcx}},~{{r11}},~{{memory}},~{{dirflag}},~{{fpsr}},~{{flags}}"(
    i64 158, i64 4131, i64 18)
  %is_given = icmp eq i64 %answer, 0
  br label %decide
decide:
  %tiles = phi i1 [ false, %compare ], [ %is_given, %request ]
"""
"""Ask Linux for tile registers: ``arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)``."""


def chooser(symbol: str, targets: Sequence[Target], use_tiles: Sequence[bool] = ()) -> str:
    """Return the text of ``i64 symbol()``: the number of the target to take, or -1 for none.

    Of those that the processor can run it is the one that asks for the most features, and the first
    one among equals. On other architectures than x86-64 it is the first, unseen.

    Args:
        symbol: The name of the function.
        targets: The processors that there is code for.
        use_tiles: For each whether its code uses tile registers; by default none. If the system
            refuses them to the process, the best of the others is taken; without any it is
            :data:`TILES_NOT_GIVEN`.
    """
    if not targets[0].triple.startswith("x86_64"):
        return f"define internal i64 @{symbol}() {{\n  ret i64 0\n}}\n"
    use_tiles = use_tiles or [False] * len(targets)
    masks = [_masks(*each) for each in zip(targets, use_tiles, strict=True)]
    lines, fits = [], {}
    for number in sorted(range(len(targets)), key=lambda n: (_count(masks[n]), -n)):
        fits[number] = "true"
        for word, mask in masks[number].items():
            here = f"%v{number}_{word}"
            lines += [
                f"{here}_found = and i32 %{word}, {mask}",
                f"{here}_has = icmp eq i32 {here}_found, {mask}",
                f"{here} = and i1 {fits[number]}, {here}_has",
            ]
            fits[number] = here
    lines += _choice(fits, [number for number in fits if use_tiles[number]])
    body = "\n".join(f"  {line}" for line in lines)
    return f"define internal i64 @{symbol}() {{\nstart:{_ASK}{body}\n}}\n"


def _choice(fits: Mapping[int, str], with_tiles: Sequence[int]) -> Iterator[str]:
    """Yield the lines that return the last number that fits, and ask for tiles if one has them."""
    wants, may, chosen = "false", dict(fits), "-1"
    for number in with_tiles:
        yield f"%wants{number} = or i1 {wants}, {fits[number]}"
        wants = f"%wants{number}"
    if with_tiles:
        yield _REQUEST.format(wants=wants).strip()
        yield f"%is_refused = xor i1 %tiles, {wants}"
        yield f"%nobody = select i1 %is_refused, i64 {TILES_NOT_GIVEN}, i64 -1"
        chosen = "%nobody"
    for number in with_tiles:
        yield f"%may{number} = and i1 {fits[number]}, %tiles"
        may[number] = f"%may{number}"
    for number, can in may.items():
        yield f"%v{number} = select i1 {can}, i64 {number}, i64 {chosen}"
        chosen = f"%v{number}"
    yield f"ret i64 {chosen}"


def _masks(target: Target, uses_tiles: bool) -> dict[str, int]:
    """Return the bits of each word that code for *target* needs, of those words that have any."""
    masks = dict.fromkeys(_WORDS, 0)
    for feature in target.enabled_features:
        if feature.startswith(TILE_FEATURES) and not uses_tiles:
            continue
        for word, bits in _BITS.items():
            if feature in bits:
                masks[word] |= 1 << bits[feature]
                masks["xcr0"] |= next((m for b, m in _SAVED.items() if feature.startswith(b)), 0)
    return {word: mask for word, mask in masks.items() if mask}


def _count(masks: dict[str, int]) -> int:
    return sum(mask.bit_count() for mask in masks.values())
