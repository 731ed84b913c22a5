"use strict";
// Numbers as people read them, in the units that the command line uses.

function withUnit(value, steps, digits = 3) {
  const [factor, unit] = steps.find(([least]) => Math.abs(value) >= least * (1 - 0.5 * 10 ** -digits)) || steps.at(-1);
  const scaled = value / factor;
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.max(1, Math.abs(scaled)))));
  return `${scaled.toFixed(places)} ${unit}`;
}

function bytes(value) {
  if (value < 1024) return `${value} B`;
  return withUnit(value, [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]]);
}

function seconds(value) {
  if (!value) return "0";
  return withUnit(value, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]);
}

function operations(value) {
  if (!value) return "0";
  return withUnit(value, [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]]).trim();
}

function percent(value, digits = 1) {
  return `${(100 * value).toFixed(digits)} %`;
}

function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

function ratio(value) {
  return Number.isFinite(value) ? `${value.toFixed(2)} ×` : "";
}
