// SPDX-License-Identifier: GPL-3.0-or-later
// Numbers as people read them. Served as one script with page.js.
"use strict";

const count = (n) => Number(n).toLocaleString("en");
const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

function amount(value, unit) {
  if (unit !== "MiB") return count(Math.round(value * 100) / 100);
  const units = ["MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${value >= 100 ? Math.round(value) : Math.round(value * 10) / 10} ${units[at]}`;
}

function age(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${ms} ms`;
  if (ms < 120000) return `${Math.round(ms / 1000)} s`;
  if (ms < 7200000) return `${Math.round(ms / 60000)} min`;
  return `${Math.round(ms / 3600000)} h`;
}

function nanoseconds(ns) {
  if (ns < 1000) return `${ns} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toPrecision(3)} µs`;
  return `${(ns / 1e6).toPrecision(3)} ms`;
}

const quantiles = (of) => `half within ${nanoseconds(of.p50)}, 99 % within ${nanoseconds(of.p99)}`;
