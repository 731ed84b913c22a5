"use strict";
// Times beside the limits of the machine, and times of two compilations beside each other.

// A kernel that exceeded its measured limit: the limit is raised to what the kernel reached.
function isRaised(time) {
  return time.limit > time.minimum;
}

// Return the least time that the limits allow, which is no more than what was seen.
function leastTime(time) {
  return Math.min(time.limit, time.minimum);
}

// Return the part of the possible speed that a call reaches; 0 where no limit is known.
function limitPart(call) {
  return call.time && call.time.limit ? leastTime(call.time) / call.time.minimum : 0;
}

function aboveLimit(call) {
  return call.time && call.time.limit ? call.time.minimum - leastTime(call.time) : 0;
}

// Return what limits a kernel: its arithmetic, or the level of the memory that its bytes lie in.
function boundText(time) {
  if (time.bound === "memory") return time.level ? `memory, ${time.level}` : "memory";
  return time.bound && time.peak ? `arithmetic of ${time.peak}` : time.bound;
}

function boundAndRaised(time) {
  return [boundText(time), isRaised(time) ? "raised" : ""].filter(Boolean).join(", ");
}

function limitRows(time) {
  if (!time.limit) return [];
  const measured = `${seconds(time.limit)}, ${boundText(time)}`;
  const raised = `raised to ${seconds(time.minimum)}: the kernel was faster than the measured limit of ${measured}`;
  return [
    ["limit of the machine", isRaised(time) ? raised : measured],
    ["part of the possible speed", percent(leastTime(time) / time.minimum, 0)],
  ];
}

// The processor, its peaks, and its caches, for a table.
function machineRows(part) {
  const roof = part.measurement && part.measurement.roof;
  if (!roof) return [];
  const peaks = roof.peaks.map(([name, rate]) => {
    const raised = roof.raised.includes(name) ? ", raised to what a kernel reached" : "";
    return [`peak of ${name}`, `${operations(rate)}${name.includes("float") ? "FLOP/s" : "op/s"}${raised}`];
  });
  const named = roof.machine.findIndex(([name]) => name === "threads") + 1;
  return [...roof.machine.slice(0, named), ...peaks, ...roof.machine.slice(named)];
}

// Return the shortest and the median time of some calls together.
function timeOf(calls) {
  const timed = calls.filter((call) => call && call.time);
  const sum = (key) => timed.reduce((total, call) => total + call.time[key], 0);
  return { minimum: sum("minimum"), median: sum("median") };
}

// Two times differ if the range of one, from its shortest to its median run, is outside of the other.
function isNoise(one, other) {
  return one.minimum <= other.median && other.minimum <= one.median;
}

function differenceText(one, other) {
  if (!one.minimum && !other.minimum) return "";
  if (isNoise(one, other)) return "within noise";
  const gained = other.minimum - one.minimum;
  return `${gained > 0 ? "+" : "−"}${seconds(Math.abs(gained))}`;
}

function timeRatio(one, other) {
  if (!one.minimum || !other.minimum) return "";
  return isNoise(one, other) ? "within noise" : ratio(other.minimum / one.minimum);
}
