"use strict";
// Which items of all stages belong to one: by the nodes of the model whose work they do, and more
// precisely where an instruction knows its nodes and a kernel its instructions.

class Links {
  constructor(part) {
    this.part = part;
    this.byOrigin = Object.fromEntries(STAGES.map((key) => [key, Links.inverted(part, key, "origins")]));
    this.byNode = Links.inverted(part, "program", "made_of");
    this.kernelOf = new Map(part.calls.map((call) => [call.instruction, call.kernel]));
  }

  static of(part) {
    if (!part.links) part.links = new Links(part);
    return part.links;
  }

  static inverted(part, key, field) {
    const found = new Map();
    part.stage[key].items.forEach((item, number) => {
      for (const origin of item[field]) {
        if (!found.has(origin)) found.set(origin, []);
        found.get(origin).push(number);
      }
    });
    return found;
  }

  // Return the numbers of the items of each stage that belong to one item, its own among them.
  related(key, number) {
    const item = this.part.stage[key].items[number];
    const found = {};
    for (const stage of STAGES) found[stage] = all(item.origins, this.byOrigin[stage]);
    found.model = item.origins;
    if (key === "lowered" && this.byNode.has(number)) found.program = this.byNode.get(number);
    if (key === "program" && item.made_of.length) found.lowered = item.made_of;
    if (key === "kernels") {
      const nodes = item.made_of.map((one) => this.part.stage.program.items[one].made_of).flat();
      found.program = item.made_of;
      found.lowered = nodes.length ? unique(nodes) : found.lowered;
    }
    found[key] = [number];
    if (key !== "kernels") {
      const kernels = found.program.map((one) => this.kernelOf.get(one));
      found.kernels = unique(kernels.filter((kernel) => kernel !== undefined));
    }
    return found;
  }
}

function all(keys, lists) {
  return unique(keys.flatMap((key) => lists.get(key) || []));
}

function unique(numbers) {
  return [...new Set(numbers)].sort((one, other) => one - other);
}
