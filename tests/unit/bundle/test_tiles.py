"""Bundles whose kernels use tile registers ask the system for them, in C programs, too."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import glow_nb
from glow_nb.bundle.codes import TILES_REFUSED
from glow_nb.bundle.header import header_of
from glow_nb.bundle.plan import Bundle, Variant, plan_bundle
from glow_nb.bundle.texts import Form, texts_of
from glow_nb.bundle.writing import write_bundle
from glow_nb.system.tile_registers import tile_registers
from tests.unit.bundle.bundles import (
    WARNINGS,
    LoadedBundle,
    natives_of,
    needs_c,
    needs_elf,
    needs_x86,
)
from tests.unit.network.saved.models import X, dense_model

pytestmark = [needs_elf, needs_x86, pytest.mark.jit]

NEEDS_TILES = pytest.mark.skipif(
    not tile_registers().are_usable, reason=f"no tiles (AMX): {tile_registers().refusal}"
)

PROGRAM = """
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "net.h"

static _Alignas(NET_ALIGNMENT) unsigned char tensors[NET_TENSORS_BYTES];
static unsigned char configuration[64] = {1};
static char small[8192];

int main(int count, char **arguments)
{
    stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
    int code;
    (void)arguments;
    if (count > 1 && sigaltstack(&stack, NULL) != 0)
        return 1;
    code = net_initialize(net_constants, tensors);
    configuration[16] = 64;
    configuration[48] = 16;
    /* ldtilecfg (%rax); tilezero %tmm0; tilerelease */
    if (code == 0 && strcmp(net_variant(), "plain") != 0)
        __asm__ volatile(".byte 0xc4,0xe2,0x78,0x49,0x00, 0xc4,0xe2,0x7b,0x49,0xc0, "
                         "0xc4,0xe2,0x78,0x49,0xc0" : : "a"(configuration) : "memory");
    printf("%d %s\\n", code, net_variant() == NULL ? "nothing" : net_variant());
    return 0;
}
"""


@pytest.fixture(scope="module")
def net() -> glow_nb.Network:
    return glow_nb.compile(dense_model(), threads=1)


def tiled(net: glow_nb.Network, *, plain: bool = False) -> Bundle:
    """Return a bundle as if its kernels used tiles, and one more variant without if *plain*."""
    native = replace(natives_of(net)[0], uses_tiles=True)
    variants = [Variant((native,))]
    if plain:
        target = replace(native.target, cpu="plain", features="+sse2")
        variants.append(Variant((replace(native, uses_tiles=False, target=target),)))
    return plan_bundle("net", ["dense"], variants, {})


@NEEDS_TILES
def test_a_process_with_the_right_runs_them(net: glow_nb.Network) -> None:
    loaded = LoadedBundle(tiled(net))
    assert loaded.initialize() == 0
    assert loaded.run({"x": X})["y"].tobytes() == net.run({"x": X})["y"].tobytes()


@NEEDS_TILES
@needs_c
@pytest.mark.parametrize("plain", [False, True])
def test_a_c_program_gets_the_right_or_is_told_that_it_is_refused(
    net: glow_nb.Network, tmp_path: Path, plain: bool
) -> None:
    """A signal stack too small for tiles is a refusal; another variant is taken then."""
    bundle, folder = tiled(net, plain=plain), tmp_path / "net"
    write_bundle(folder, bundle, Form(embedded=True), made_from={})
    (folder / "ask.c").write_text(PROGRAM, encoding="utf-8")
    flags = ["-std=gnu11", *WARNINGS, "-o", "ask", "ask.c", "libnet.a", "-lm"]
    subprocess.run(["cc", *flags], cwd=folder, check=True)
    said = [
        subprocess.run(["./ask", *more], cwd=folder, check=True, capture_output=True).stdout
        for more in ([], ["small"])
    ]
    best = bundle.variants[0].cpu
    refused = b"0 plain\n" if plain else f"{TILES_REFUSED} nothing\n".encode()
    assert said == [f"0 {best}\n".encode(), refused]


def test_the_header_names_the_refusal_where_there_may_be_one(net: glow_nb.Network) -> None:
    with_tiles = tiled(net)
    (native,) = natives_of(net)
    without = plan_bundle("net", ["dense"], [Variant((replace(native, uses_tiles=False),))], {})
    for bundle, is_named in ((with_tiles, True), (without, False)):
        texts = header_of(bundle, embedded=True), texts_of(bundle, Form(), [])["main.c"]
        assert [text.count("NET_TILES_REFUSED") for text in texts] == [int(is_named)] * 2


def test_a_written_program_still_knows_that_it_uses_tiles(net: glow_nb.Network) -> None:
    (native,) = natives_of(net)
    for uses in (False, True):
        made = replace(native, uses_tiles=uses)
        assert type(made).from_bytes(made.to_bytes()).uses_tiles is uses
