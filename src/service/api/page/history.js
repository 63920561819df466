// SPDX-License-Identifier: GPL-3.0-or-later
// What came of it: gains since the start of the record, the queue over time, groups of nodes, and
// what each method makes of the plan. Uses what page.js has; texts only become text nodes.
"use strict";

const REPORT_MS = 60000;
const DAY_MS = 86400000;
const CHART = { width: 720, height: 210, left: 44, bottom: 20, top: 8 };
const SVG = "http://www.w3.org/2000/svg";
const report = { read: 0 };

function shape(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.append(text);
  return node;
}

const percent = (share) => `${Math.round(share * 1000) / 10} %`;

/** Seconds as somebody would say them. */
const lasting = (seconds) =>
  seconds < 120 ? `${Math.round(seconds * 10) / 10} s` : age(seconds * 1000);

// ---- gains

/** Sums over all methods; null where nothing is known. */
function runs(of) {
  const rows = Object.values(of.runs);
  const sum = (name) => rows.reduce((all, row) => all + (row[name] || 0), 0);
  const waits = sum("waits");
  const wait = rows.reduce((all, row) => all + (row.wait_mean_s || 0) * row.waits, 0);
  return {
    runs: sum("runs"),
    wait: waits ? wait / waits : null,
    measured: sum("measured"),
    joules: sum("measured") ? sum("joules") : null,
  };
}

function gains(of) {
  const all = runs(of);
  const gpu = of.use_of["gres/gpu"];
  const unknown = (why) => `unknown: ${why}`;
  return [
    [
      "Decided nodes",
      of.answers.with_nodes
        ? `${count(of.answers.placed)} of ${plural(of.answers.with_nodes, "answer")} placed so`
        : unknown("no answer with nodes"),
    ],
    [
      "Mean wait",
      all.wait === null
        ? unknown("no job ended")
        : `${lasting(all.wait)} (${plural(all.runs, "job")})`,
    ],
    [
      "GPUs stranded",
      gpu ? `${percent(gpu.stranded)}, mean over time` : unknown("no GPUs sampled"),
    ],
    [
      "Leaf switches",
      of.leaves
        ? `${of.leaves.mean.toFixed(2)} a job of several nodes, ` +
          `${of.leaves.fewest_mean.toFixed(2)} the fewest possible`
        : unknown("no such job on decided nodes"),
    ],
    ["Local reads", of.locality ? percent(of.locality.share) : unknown("no data job was placed")],
    [
      "Energy",
      all.joules === null
        ? unknown("none in the accounting")
        : `${(all.joules / 3.6e6).toFixed(2)} kWh of ${plural(all.measured, "job")}`,
    ],
    [
      "Shadow",
      of.shadow.starts
        ? `${count(of.shadow.starts - of.shadow.agreed)} of ` +
          `${plural(of.shadow.starts, "start")} on other nodes than Slurm`
        : unknown("no start in mode shadow"),
    ],
  ];
}

function showReport(of) {
  if (of.error) {
    $("gains").replaceChildren(el("dt", {}, "Unknown"), el("dd", {}, of.error));
    $("past").replaceChildren();
    $("past-note").textContent = "";
    return;
  }
  const first = of.first_ms ? new Date(of.first_ms).toLocaleString("en-GB") : "nothing recorded";
  $("gains-count").textContent = `recorded since ${first}`;
  $("gains").replaceChildren(
    ...gains(of).flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]),
  );
  showPast(of);
}

// ---- the queue over time

function line(points, x, y, value, kind) {
  const at = (point) => `${x(point.time_ms).toFixed(1)},${y(value(point)).toFixed(1)}`;
  return shape("polyline", { class: `line ${kind}`, points: points.map(at).join(" ") });
}

function showPast(of) {
  const { points } = of;
  const picture = $("past");
  if (points.length < 2) {
    picture.replaceChildren();
    $("past-note").textContent = "The queue over time appears after some minutes.";
    return;
  }
  const { width, height, left, bottom, top } = CHART;
  const [first, last] = [points[0].time_ms, points[points.length - 1].time_ms];
  const most = Math.max(1, ...points.flatMap((point) => [point.pending, point.running]));
  const x = (ms) => left + ((ms - first) / (last - first)) * (width - left - 4);
  const y = (value) => height - bottom - (value / most) * (height - bottom - top);
  const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB").slice(0, 5);
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.replaceChildren(
    ...[0, most / 2, most].flatMap((value) => [
      shape("line", { class: "grid", x1: left, x2: width, y1: y(value), y2: y(value) }),
      shape(
        "text",
        { x: left - 6, y: y(value) + 4, "text-anchor": "end" },
        count(Math.round(value)),
      ),
    ]),
    shape("text", { x: left, y: height - 4 }, clock(first)),
    shape("text", { x: width, y: height - 4, "text-anchor": "end" }, clock(last)),
    line(points, x, y, (point) => point.running, "running"),
    line(points, x, y, (point) => point.pending, "pending"),
  );
  const now = points[points.length - 1];
  picture.setAttribute(
    "aria-label",
    `Jobs over time: lately ${Math.round(now.pending)} waiting, ${Math.round(now.running)} running`,
  );
  $("past-note").replaceChildren(
    el("i", { class: "key pending" }),
    "waiting ",
    el("i", { class: "key running" }),
    "running",
  );
}

// ---- groups of nodes

/** Nodes whose names differ in numbers alone, with their mean use. */
function groups(heat) {
  const found = new Map();
  heat.names.forEach((name, i) => {
    const key = name.replace(/\d+/g, "*");
    if (!found.has(key)) found.set(key, { name: key, nodes: [] });
    found.get(key).nodes.push(i);
  });
  const unusable = heat.states.map((text) => UNUSABLE.test(text));
  return [...found.values()].map(({ name, nodes }) => ({
    name,
    nodes: nodes.length,
    down: nodes.filter((i) => unusable[heat.state[i]]).length,
    idle: nodes.filter((i) => !heat.jobs[i] && !unusable[heat.state[i]]).length,
    use: heat.dimensions.map((dimension, at) => {
      const has = nodes.map((i) => heat.percent[at][i]).filter((value) => value !== null);
      const sum = has.reduce((all, value) => all + value, 0);
      return has.length ? `${dimension.name} ${Math.round(sum / has.length)} %` : null;
    }),
  }));
}

const GROUPS_SHOWN = 40;

function showGroups(heat) {
  if (heat.error) return;
  const all = groups(heat);
  all.sort((a, b) => b.nodes - a.nodes);
  const rows = all.slice(0, GROUPS_SHOWN).map((group) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, group.name),
      el("td", { class: "n" }, count(group.nodes)),
      el("td", { class: "n" }, count(group.idle)),
      el("td", { class: "n" }, count(group.down)),
      el("td", {}, group.use.filter(Boolean).join(", ")),
    ),
  );
  if (all.length > GROUPS_SHOWN)
    rows.push(el("tr", {}, el("td", { colspan: 5 }, `${all.length - GROUPS_SHOWN} more`)));
  fill("groups", rows, 5, "No nodes.");
}

// ---- what the methods say

function showMethods(plan) {
  const methods = (plan && !plan.error && plan.methods) || [];
  fill(
    "methods",
    methods.map((method) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, method.method),
        el("td", { class: "n" }, count(method.jobs)),
        el("td", { class: "n" }, count(method.starts)),
        el(
          "td",
          { class: "n" },
          method.gap === null || method.gap === undefined ? "not known" : percent(method.gap),
        ),
        el(
          "td",
          { class: method.error ? "error" : "" },
          method.error || `in ${age(method.took_ms)}`,
        ),
      ),
    ),
    5,
    "None has a plan: balance decides when Slurm asks.",
  );
}

/** Reads what came of the period that is chosen. */
async function readReport() {
  const now = Date.now();
  const days = $("period").value;
  report.read = now;
  const of = await optional(`v1/report?since=${days === "" ? 0 : now - days * DAY_MS}`);
  if (days === $("period").value) showReport(of);
}

/** Called with what the page has read; asks for the report once a minute, of a long period less. */
async function showHistory(heat, plan) {
  showGroups(heat);
  showMethods(plan);
  $("period").onchange = readReport;
  const every = $("period").value === "1" ? REPORT_MS : 10 * REPORT_MS;
  if (Date.now() - report.read >= every) await readReport();
}
