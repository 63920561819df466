// SPDX-License-Identifier: GPL-3.0-or-later
// The page: reads the daemon's JSON every few seconds and shows it. Texts of
// users (node, job and collector names) only ever become text nodes.
"use strict";

const PERIOD_MS = 5000;
const JOBS_SHOWN = 200;
// A ramp whose lightness grows or falls steadily: readable without colours.
const RAMP = matchMedia("(prefers-color-scheme: dark)");
const LIGHT = [
  [236, 243, 251],
  [158, 201, 226],
  [66, 146, 198],
  [8, 81, 156],
  [6, 30, 68],
];
const DARK = [
  [31, 44, 61],
  [34, 82, 130],
  [49, 130, 189],
  [130, 190, 230],
  [235, 246, 255],
];
const UNUSABLE = /DOWN|DRAIN|FAIL|UNKNOWN|NOT_RESPONDING|NO_RESPOND|ERROR/;

const $ = (id) => document.getElementById(id);
const state = {
  heat: null,
  dimension: "cpu",
  cursor: -1,
  open: new Set(),
  paused: false,
  byLeaf: true,
  cells: null,
};

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

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

// ---- reading

async function get(path) {
  const reply = await fetch(path, { cache: "no-store" });
  if (!reply.ok) {
    const body = await reply.json().catch(() => ({}));
    const error = new Error(body.error || `${path}: ${reply.status}`);
    error.status = reply.status;
    throw error;
  }
  return reply.json();
}

const optional = (path) =>
  get(path).catch((error) => (error.status ? { error: error.message } : Promise.reject(error)));

async function refresh() {
  if (state.paused || document.hidden) return;
  try {
    const [status, heat, plan, collectors, data, agents] = await Promise.all([
      get("v1/status"),
      ...["heat", "plan", "collectors", "data", "agents"].map((name) => optional(`v1/${name}`)),
    ]);
    showStatus(status);
    showHeat(heat);
    showPlan(plan);
    showCollectors(collectors, data, agents);
    showUses(status.collect?.uses || []);
    await showHistory(heat, plan);
    $("problem").hidden = true;
    $("updated").textContent = `Updated ${new Date().toLocaleTimeString("en-GB")}`;
  } catch (error) {
    $("problem").textContent =
      `phalanxd does not answer (${error.message}). What you see is old; ` +
      "Slurm places jobs by itself meanwhile.";
    $("problem").hidden = false;
  }
  document.documentElement.dataset.loaded = "yes";
}

async function run() {
  await refresh();
  setTimeout(run, PERIOD_MS);
}

// ---- status

function chip(text, mood) {
  return el("li", { class: mood }, text);
}

function showStatus(status) {
  $("cluster").textContent = status.slurm.cluster;
  document.title = `Phalanx – ${status.slurm.cluster}`;
  const { mode, last_error: refused } = status.config;
  const chips = [chip(`mode ${mode}`, mode === "enforce" ? "good" : "warn")];
  const plugin = status.plugin;
  chips.push(
    plugin.connected
      ? chip(
          plugin.synced ? "plugin in step" : "plugin connecting",
          plugin.synced ? "good" : "warn",
        )
      : chip("plugin not connected", "bad"),
  );
  if (plugin.connected)
    chips.push(
      chip(`breaker ${plugin.breaker || "unknown"}`, plugin.breaker === "closed" ? "good" : "bad"),
    );
  chips.push(
    status.slurm.reachable
      ? chip(`slurmctld ${status.slurm.version}`, "good")
      : chip("slurmctld does not answer", "bad"),
  );
  if (refused) chips.push(chip("configuration refused", "bad"));
  if (status.history.last_error) chips.push(chip("history fails", "warn"));
  $("chips").replaceChildren(...chips);

  const shares = (calls) =>
    calls.asked
      ? `${count(calls.narrowed)} of ${plural(calls.asked, "question")} placed on the answered ` +
        `nodes (${Math.round((100 * calls.narrowed) / calls.asked)} %)`
      : "no questions yet";
  const rows = [
    ["Starts", shares(status.run_now)],
    ["Forecasts", shares(status.will_run)],
    ["Answers", status.link.answer_ns.count ? quantiles(status.link.answer_ns) : "none yet"],
    [
      "In slurmctld",
      plugin.ask_ns.count ? `${quantiles(plugin.ask_ns)} for each question` : "no questions yet",
    ],
    [
      "Jobs",
      `${count(status.slurm.jobs_running)} running, ${count(status.slurm.jobs_pending)} pending`,
    ],
    ["Running for", age(status.uptime_s * 1000)],
  ];
  $("placement").replaceChildren(
    ...rows.flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]),
  );
  const reasons = new Set([
    ...Object.keys(status.run_now.fallen_back),
    ...Object.keys(status.will_run.fallen_back),
  ]);
  const lines = [...reasons].map((reason) => [
    reason,
    status.run_now.fallen_back[reason] || 0,
    status.will_run.fallen_back[reason] || 0,
  ]);
  lines.sort((a, b) => b[1] + b[2] - a[1] - a[2]);
  fill(
    "reasons",
    lines.map(([reason, starts, forecasts]) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, reason),
        el("td", { class: "n" }, count(starts)),
        el("td", { class: "n" }, count(forecasts)),
      ),
    ),
    3,
    "None so far.",
  );
}

/** Puts rows into a table's body; without any, one that says so. */
function fill(table, rows, columns, none) {
  const body = $(table).tBodies[0];
  const focused = body.contains(document.activeElement) ? document.activeElement.id : "";
  body.replaceChildren(
    ...(rows.length ? rows : [el("tr", {}, el("td", { colspan: columns, class: "quiet" }, none))]),
  );
  if (focused && $(focused)) $(focused).focus();
}

// ---- the map of nodes

function colour(percent) {
  const ramp = RAMP.matches ? DARK : LIGHT;
  const at = (percent / 100) * (ramp.length - 1);
  const low = Math.min(Math.floor(at), ramp.length - 2);
  const mix = ramp[low].map((c, i) => Math.round(c + (ramp[low + 1][i] - c) * (at - low)));
  return `rgb(${mix.join(",")})`;
}

function showHeat(heat) {
  if (heat.error) {
    state.heat = null;
    $("nodes-count").textContent = heat.error;
    return;
  }
  state.heat = heat;
  $("nodes-count").textContent = plural(heat.names.length, "node");
  if (!heat.dimensions.some((d) => d.name === state.dimension) && heat.dimensions.length)
    state.dimension = heat.dimensions[0].name;
  showDimensions(heat);
  showLeaves(heat);
  fill(
    "resources",
    heat.dimensions.map((d) => {
      const share = d.total > 0 ? (100 * d.used) / d.total : 0;
      return el(
        "tr",
        {},
        el("th", { scope: "row" }, d.name),
        el("td", { class: "n" }, amount(d.total, d.unit)),
        el("td", { class: "n" }, amount(d.used, d.unit)),
        el("td", {}, meter(share, `${Math.round(share)} %`)),
        el("td", { class: "n" }, amount(d.stranded, d.unit)),
      );
    }),
    5,
    "No nodes.",
  );
  draw();
  describe();
}

/** How many leaf switches or blocks there are, and how many of them are wholly idle. */
function showLeaves(heat) {
  $("by-leaf").hidden = $("leaves").hidden = !heat.leaves;
  if (!heat.leaves) return;
  const block = heat.topology === "block";
  $("by-leaf").textContent = block ? "By block" : "By leaf switch";
  const [busy, used] = [new Set(), new Set()];
  const unusable = heat.states.map((text) => UNUSABLE.test(text));
  heat.leaf.forEach((leaf, i) => {
    used.add(leaf);
    if (heat.jobs[i] > 0 || unusable[heat.state[i]]) busy.add(leaf);
  });
  for (const leaves of [busy, used]) leaves.delete(null);
  const outside = heat.leaf.filter((leaf) => leaf === null).length;
  $("leaves").textContent =
    (block ? plural(used.size, "block") : plural(used.size, "leaf switch", "leaf switches")) +
    `, ${count(used.size - busy.size)} wholly idle` +
    (outside ? `; ${plural(outside, "node")} on none.` : ".");
}

function meter(share, text, partial = false) {
  const bar = el("i", { class: partial ? "part" : "" });
  bar.style.width = `${Math.min(100, share)}%`;
  const box = el("span", { class: "meter", "aria-hidden": "true" }, bar);
  return el("span", {}, box, text);
}

function showDimensions(heat) {
  const names = heat.dimensions.map((d) => d.name);
  const group = $("dimensions");
  if (group.dataset.names !== names.join()) {
    group.dataset.names = names.join();
    group.replaceChildren(
      ...names.map((name) =>
        el("button", { type: "button", role: "radio", "data-name": name }, name),
      ),
    );
  }
  for (const button of group.children) {
    const chosen = button.dataset.name === state.dimension;
    button.setAttribute("aria-checked", chosen);
    button.tabIndex = chosen ? 0 : -1;
  }
}

function choose(name, focus) {
  state.dimension = name;
  showDimensions(state.heat);
  if (focus) $("dimensions").querySelector('[aria-checked="true"]').focus();
  draw();
  describe();
}

$("dimensions").addEventListener("click", (event) => {
  if (event.target.dataset.name) choose(event.target.dataset.name, false);
});
$("dimensions").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step || !state.heat) return;
  event.preventDefault();
  const names = state.heat.dimensions.map((d) => d.name);
  choose(names[(names.indexOf(state.dimension) + step + names.length) % names.length], true);
});

/** Nodes by leaf switch or block, those on none last; without leaves all in one. */
function groupsOf(heat) {
  if (!state.byLeaf || !heat.leaves) return [{ name: "", nodes: heat.names.map((_, i) => i) }];
  const groups = [...heat.leaves, "others"].map((name) => ({ name, nodes: [] }));
  heat.leaf.forEach((leaf, i) => groups[leaf ?? groups.length - 1].nodes.push(i));
  return groups.filter((group) => group.nodes.length);
}

/** Puts groups of cells of one size into rows; `label`: height of their names. */
function place(groups, width, size, label) {
  const space = groups.length > 1 ? Math.max(5, size / 2) : 0;
  const boxes = [];
  let [x, y, tall] = [0, 0, 0];
  for (const { name, nodes } of groups) {
    const most = Math.max(1, Math.floor(width / size));
    const square = groups.length > 1 ? Math.ceil(Math.sqrt(1.8 * nodes.length)) : most;
    const columns = Math.min(nodes.length, square, most);
    const wide = Math.max(columns * size, label ? Math.min(7 * name.length + 4, 110) : 0);
    if (x > 0 && x + wide > width) [x, y, tall] = [0, y + tall + space, 0];
    boxes.push({ name, nodes, columns, x, y: y + label, wide });
    x += wide + space;
    tall = Math.max(tall, label + Math.ceil(nodes.length / columns) * size);
  }
  return { size, boxes, label, height: y + tall };
}

/** Cells as large as a map of moderate height allows, names of groups where there is room. */
function layout(width, heat) {
  const groups = groupsOf(heat);
  const height = Math.max(120, Math.min(420, innerHeight * 0.45));
  let cells = null;
  for (let size = 34; size >= 4 && !(cells && cells.height <= height); size -= 1)
    cells = place(groups, width, size, size >= 6 && groups.length > 1 ? 16 : 0);
  cells.gap = cells.size > 7 ? (cells.size > 16 ? 2 : 1) : cells.size > 4 ? 0.5 : 0;
  cells.order = cells.boxes.flatMap((box) => box.nodes);
  [cells.box, cells.at] = [[], []];
  for (const box of cells.boxes)
    box.nodes.forEach((i, at) => {
      cells.box[i] = box;
      cells.at[i] = at;
    });
  return cells;
}

/** Upper left corner of a node's cell. */
function corner(i, cells) {
  const [box, at, { size }] = [cells.box[i], cells.at[i], cells];
  return [box.x + (at % box.columns) * size, box.y + Math.floor(at / box.columns) * size];
}

function draw() {
  const canvas = $("heat");
  const heat = state.heat;
  if (!heat) return;
  const width = canvas.parentElement.clientWidth;
  const cells = layout(width, heat);
  state.cells = cells;
  const scale = devicePixelRatio || 1;
  const height = Math.max(cells.height, 1);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const at = heat.dimensions.findIndex((d) => d.name === state.dimension);
  const row = heat.percent[at] || [];
  const styles = getComputedStyle(document.documentElement);
  const none = styles.getPropertyValue("--cell-none");
  const down = styles.getPropertyValue("--cell-down");
  const colours = Array.from({ length: 101 }, (_, percent) => colour(percent));
  const unusable = heat.states.map((text) => UNUSABLE.test(text));
  const side = cells.size - cells.gap;
  for (let i = 0; i < heat.names.length; i += 1) {
    const [x, y] = corner(i, cells);
    const percent = row[i];
    const dead = unusable[heat.state[i]];
    context.fillStyle = dead
      ? down
      : percent === null || percent === undefined
        ? none
        : colours[percent];
    context.fillRect(x, y, side, side);
    if (dead && side >= 6) {
      context.strokeStyle = styles.getPropertyValue("--card");
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(x + 2, y + 2);
      context.lineTo(x + side - 2, y + side - 2);
      context.stroke();
    }
  }
  if (cells.label) drawNames(context, cells, styles.getPropertyValue("--quiet"));
  const found = matches();
  context.strokeStyle = styles.getPropertyValue("--bad");
  context.lineWidth = 2;
  for (const i of found.slice(0, 2000)) outline(context, i, cells);
  if (state.cursor >= 0 && state.cursor < heat.names.length) {
    context.strokeStyle = styles.getPropertyValue("--ink");
    context.lineWidth = 2.5;
    outline(context, state.cursor, cells);
  }
  const steps = [0, 25, 50, 75, 100].map((p) => `${colour(p)} ${p}%`);
  $("ramp").style.background = `linear-gradient(to right, ${steps.join(",")})`;
}

function outline(context, i, cells) {
  const [[x, y], side] = [corner(i, cells), Math.max(cells.size - cells.gap, 5)];
  context.strokeRect(x + 1, y + 1, side - 2, side - 2);
}

/** Names of groups above them, cut to their width. */
function drawNames(context, cells, colour) {
  context.fillStyle = colour;
  context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
  for (const box of cells.boxes) {
    let text = box.name;
    while (text.length > 1 && context.measureText(text).width > box.wide)
      text = `${text.slice(0, text.endsWith("…") ? -2 : -1)}…`;
    context.fillText(text, box.x, box.y - 4);
  }
}

function matches() {
  const text = $("find").value.trim().toLowerCase();
  if (!text || !state.heat) return [];
  const found = [];
  state.heat.names.forEach((name, i) => {
    if (name.toLowerCase().includes(text)) found.push(i);
  });
  return found;
}

function describe() {
  const heat = state.heat;
  const i = state.cursor;
  if (!heat || i < 0 || i >= heat.names.length) return;
  const uses = heat.dimensions
    .map((d, at) => {
      const percent = heat.percent[at][i];
      return percent === null ? null : `${d.name} ${percent} %`;
    })
    .filter(Boolean);
  const leaf = heat.leaves && heat.leaf[i] !== null ? `, ${heat.leaves[heat.leaf[i]]}` : "";
  $("node").textContent =
    `${heat.names[i]}${leaf}: ${heat.states[heat.state[i]].toLowerCase()}, ` +
    `${plural(heat.jobs[i], "job")}; in use: ${uses.join(", ")}`;
}

function moveTo(i) {
  if (!state.heat || !state.heat.names.length) return;
  state.cursor = Math.max(0, Math.min(i, state.heat.names.length - 1));
  draw();
  describe();
}

$("heat").addEventListener("pointermove", (event) => {
  const cells = state.cells;
  if (!cells) return;
  for (const box of cells.boxes) {
    const column = Math.floor((event.offsetX - box.x) / cells.size);
    const row = Math.floor((event.offsetY - box.y) / cells.size);
    const i = box.nodes[row * box.columns + column];
    if (column < 0 || column >= box.columns || row < 0 || i === undefined) continue;
    if (i !== state.cursor) moveTo(i);
  }
});
$("heat").addEventListener("keydown", (event) => {
  const { cells } = state;
  if (!cells) return;
  const last = cells.order.length - 1;
  const columns = state.cursor < 0 ? 1 : cells.box[state.cursor].columns;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  const to = (at) => moveTo(cells.order[Math.max(0, Math.min(at, last))]);
  if (step) to(state.cursor < 0 ? 0 : cells.order.indexOf(state.cursor) + step);
  else if (event.key === "Home") to(0);
  else if (event.key === "End") to(last);
  else return;
  event.preventDefault();
});
$("by-leaf").addEventListener("click", () => {
  state.byLeaf = !state.byLeaf;
  $("by-leaf").setAttribute("aria-pressed", state.byLeaf);
  draw();
});
$("find").addEventListener("input", () => {
  const found = matches();
  if (found.length) moveTo(found[0]);
  else draw();
  if ($("find").value.trim()) {
    $("nodes-count").textContent =
      `${count(found.length)} of ${plural(state.heat ? state.heat.names.length : 0, "node")}`;
  }
});
addEventListener("resize", draw);
RAMP.addEventListener("change", draw);

// ---- plan and queue

function showPlan(plan) {
  if (plan.error) {
    $("queue-count").textContent = "";
    $("queue-more").textContent = "";
    fill("jobs", [], 5, plan.error);
    return;
  }
  const waiting = plan.jobs.length + plan.not_planned;
  $("queue-count").textContent =
    `${plural(waiting, "pending job")}, plan of ` +
    `${new Date(plan.time_ms).toLocaleTimeString("en-GB")} in ${age(plan.took_ms)}`;
  const shown = plan.jobs.slice(0, JOBS_SHOWN);
  const alive = new Set(shown.map((job) => job.job_id));
  for (const id of state.open.keys()) if (!alive.has(id)) state.open.delete(id);
  const rows = shown.flatMap((job, i) => {
    const open = state.open.has(job.job_id);
    const why = job.reason || job.nodes || "waits";
    const button = el(
      "button",
      {
        type: "button",
        "aria-expanded": open,
        id: `why-${job.job_id}`,
        "data-job": job.job_id,
        "aria-label": `Why, job ${job.job_id}`,
      },
      "Why",
    );
    const row = el(
      "tr",
      {},
      el("td", { class: "n" }, String(i + 1)),
      el("th", { scope: "row" }, String(job.job_id)),
      el("td", {}, job.method),
      el("td", { class: "why" }, job.nodes ? el("strong", {}, why) : why),
      el("td", {}, button),
    );
    return open ? [row, detail(job.job_id)] : [row];
  });
  fill("jobs", rows, 5, "No job waits.");
  const more = waiting - shown.length;
  $("queue-more").textContent = more > 0 ? `and ${plural(more, "further job")}` : "";
}

const explained = new Map();
function detail(id) {
  const cell = el("td", { colspan: 5 }, ...(explained.get(id) || ["..."]));
  get(`v1/explain/${id}`).then(
    (report) => {
      explained.set(id, explanation(report));
      cell.replaceChildren(...explained.get(id));
    },
    (error) => cell.replaceChildren(error.message),
  );
  return el("tr", { class: "detail" }, cell);
}

function explanation(report) {
  const parts = [];
  const asked = Object.entries(report.request)
    .map(([name, text]) => `${name}: ${text}`)
    .join(", ");
  parts.push(
    el(
      "div",
      {},
      `${report.state.toLowerCase()} in ${report.partition}; asks for ${asked || "nothing known"}`,
    ),
  );
  const pending = report.pending;
  if (pending) {
    parts.push(el("div", {}, el("strong", {}, pending.summary)));
    const list = pending.filters
      .filter((f) => f.removed > 0)
      .map((f) => el("li", {}, `${f.filter} (${f.asked}) rules out ${plural(f.removed, "node")}`));
    list.push(
      el(
        "li",
        {},
        `${plural(pending.eligible, "node")} may run it, ${count(pending.fits_now)} have room ` +
          `now, ${count(pending.nodes_needed)} needed`,
      ),
    );
    for (const b of pending.blockers)
      list.push(
        el(
          "li",
          {},
          `${b.dimension}: lacking on ${plural(b.nodes_lacking, "node")}, ` +
            `at least ${count(b.least_missing)} more`,
        ),
      );
    parts.push(el("ul", {}, ...list));
  } else if (report.placed) {
    parts.push(el("div", {}, `runs on ${report.placed.nodes}`));
  }
  return parts;
}

$("jobs").addEventListener("click", (event) => {
  const id = Number(event.target.dataset.job);
  if (!id) return;
  const row = event.target.closest("tr");
  if (state.open.delete(id)) row.nextElementSibling.remove();
  else {
    state.open.add(id);
    row.after(detail(id));
  }
  event.target.setAttribute("aria-expanded", state.open.has(id));
});

// ---- collectors

function showCollectors(report, data, agents) {
  if (report.error) {
    $("data-count").textContent = "";
    fill("collectors", [], 7, `No data service: ${report.error}`);
    return;
  }
  const ages = new Map((data.names || []).map((name) => [name.name, name.oldest_age_ms]));
  const classes = { running: "good", failing: "bad", waiting: "warn", stopped: "" };
  $("data-count").textContent = plural(report.collectors.length, "registration");
  fill(
    "collectors",
    report.collectors.map((c) => {
      const { assigned, fresh, stale } = c.instances;
      const of = Math.max(assigned, fresh + stale);
      const share = of ? (100 * fresh) / of : 0;
      const error = c.last_error ? `${c.last_error}`.slice(0, 300) : "";
      return el(
        "tr",
        {},
        el("th", { scope: "row" }, c.name),
        el("td", {}, c.kind),
        el("td", {}, el("span", { class: `state ${classes[c.state] ?? ""}` }, c.state)),
        el("td", { class: "n" }, age(c.every_ms)),
        el("td", {}, meter(share, `${count(fresh)} of ${count(of)}`, fresh < of)),
        el("td", { class: "n" }, age(ages.get(c.name))),
        el("td", { class: "error" }, error),
      );
    }),
    7,
    "None registered: phalanx collector add.",
  );
  if (agents && !agents.error) {
    const alive = agents.agents.filter((a) => a.connected).length;
    $("agents").textContent =
      `${count(alive)} of ${plural(agents.agents.length, "agent")} connected`;
  }
}

// Words such as "history" are the method's own knowledge: nothing of them is fresh or stale.
function showUses(uses) {
  $("uses-box").hidden = !uses.length;
  fill(
    "uses",
    uses.map(({ key, name, fallback, fresh, stale }) => {
      const of = fresh + stale;
      return el(
        "tr",
        {},
        el("th", { scope: "row" }, key),
        el("td", {}, name),
        el(
          "td",
          {},
          of ? meter((100 * fresh) / of, `${count(fresh)} of ${count(of)}`, stale > 0) : "–",
        ),
        el("td", {}, fallback),
      );
    }),
    4,
    "",
  );
}

$("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  $("pause").setAttribute("aria-pressed", state.paused);
  if (!state.paused) refresh();
});
document.addEventListener("visibilitychange", refresh);
run();
