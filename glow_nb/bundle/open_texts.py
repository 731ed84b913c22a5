"""The parts of the texts of a bundle about open sizes: example, pool and README."""

from __future__ import annotations

from collections.abc import Mapping

from glow_nb.bundle.filled import filled
from glow_nb.bundle.identifiers import c_string, template
from glow_nb.bundle.plan import Bundle

_MEANINGS = """\
    case ${NAME}_NO_SUCH_SIZE: return "a size is outside of its range";
    case ${NAME}_OTHER_SIZES:
        return "the code is for sizes where the conditions of the header hold";
    case ${NAME}_TOO_LARGE: return "these sizes need more memory than any machine has";
    case ${NAME}_TOO_SMALL: return "a block is smaller than these sizes need";
"""

_OPTION = """\
        else if (strcmp(argv[next], "-s") == 0) {
            if (sizes_of(argv[next + 1]) != 0)
                return 1;
        }
"""

_MEASURE = """\
${name}_sizes sizes = {{${example}}, 0, 0};
${name}_tensor inputs[${OWN}_INPUT_COUNT], outputs[${OWN}_OUTPUT_COUNT];
memcpy(inputs, ${own}_inputs, sizeof inputs);     /* once, to have names and types there */
memcpy(outputs, ${own}_outputs, sizeof outputs);

${name}_measure(&sizes);                          /* what tensors and arena need */
${own}_tensors(&sizes, inputs, outputs);          /* where inputs and outputs lie, their shapes */
"""

_RULES = """
## Sizes

${ranges}

Other sizes are taken from run to run. `${name}_measure` checks them and says how many bytes of
tensors and arena they need; `${own}_tensors` says where inputs and outputs lie then, with
their bytes and shapes. Blocks that are measured for large sizes do for smaller ones, too: change
`sizes.size` alone, and a run that needs more than the bytes beside it is refused. States stay where
they are. Only the first run of new sizes lays out the tensors anew.
${conditions}"""

_CONDITIONS = """
The code is right for sizes where ${conditions}; others are refused.
"""


_ONLY_OPEN = (
    *("helpers_of_sizes", "lay_out", "meanings", "measure", "option", "sizes_of_run", "sizes_set"),
    *("size_rules", "sizes", "sizes_member", "sizes_parameter", "sizes_type", "sizes_usage"),
)
"""Holes that stay empty without open sizes."""


def holes_of_sizes(bundle: Bundle) -> dict[str, str]:
    """Return what templates have where open sizes are spoken of; empty texts if there are none."""
    if not bundle.sizes:
        macro = bundle.name.upper()
        return {
            **dict.fromkeys(_ONLY_OPEN, ""),
            "tensors_bytes": f"{macro}_TENSORS_BYTES",
            "arena_bytes": f"{macro}_ARENA_BYTES",
            "tables": "function->inputs, function->outputs",
        }
    name, own = bundle.name, f"{bundle.name}_{bundle.functions[0].identifier}"
    values = {"name": name, "NAME": name.upper(), "own": own, "OWN": own.upper()}
    return {
        "meanings": filled(_MEANINGS, values),
        "helpers_of_sizes": filled(template("sizes.c"), values),
        "option": _OPTION,
        "lay_out": "    if (measure(function) != 0)\n        return 1;\n",
        "tensors_bytes": "sizes.tensors_bytes",
        "arena_bytes": "sizes.arena_bytes",
        "tables": "input_table, output_table",
        "sizes": ", &sizes",
        "sizes_usage": f"-s {','.join('SIZE' for _ in bundle.sizes)} ",
        "sizes_type": f", const {name}_sizes *",
        "sizes_member": f"    const {name}_sizes *sizes;\n",
        "sizes_of_run": ", run->sizes",
        "sizes_parameter": f", const {name}_sizes *sizes",
        "sizes_set": "    pool->run.sizes = sizes;\n",
        "measure": filled(_MEASURE, values, example=_example(bundle)),
        "size_rules": _rules(bundle, values),
    }


def _example(bundle: Bundle) -> str:
    """Return the sizes of the example, as C is given them."""
    hints = ", ".join(str(symbol.hint) for symbol in bundle.sizes)
    names = ", ".join(c_string(symbol.name) for symbol in bundle.sizes)
    return f"{hints} /* {names} */"


def _rules(bundle: Bundle, values: Mapping[str, str]) -> str:
    rows = ["| size | name in the types below | from | to |", "| --- | --- | --- | --- |"]
    for n, symbol in enumerate(bundle.sizes):
        rows.append(
            f"| `sizes.size[{n}]` | `{c_string(symbol.name)}` | {symbol.low} | {symbol.high} |"
        )
    named = ", ".join(f"`{guard}`" for guard in bundle.guards)
    conditions = filled(_CONDITIONS, conditions=named) if named else ""
    return filled(_RULES, values, ranges="\n".join(rows), conditions=conditions)
