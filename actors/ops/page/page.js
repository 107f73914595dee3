"use strict";
// Everything that is shown goes in as text, never as markup: names, errors and output come from code that nobody trusts.
const $ = (id) => document.getElementById(id);
const put = (parent, ...children) => { parent.replaceChildren(...children); return parent; };
const make = (tag, text, name) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (name) e.className = name; return e; };
const ms = (n) => n >= 10000 ? (n / 1000).toFixed(1) + " s" : n >= 100 ? n.toFixed(0) + " ms" : n.toFixed(1) + " ms";
const bytes = (n) => n >= 1 << 20 ? (n / (1 << 20)).toFixed(1) + " MiB" : n >= 1024 ? (n / 1024).toFixed(1) + " KiB" : n + " B";
const clock = (t) => new Date(t).toLocaleTimeString();
const button = (text, label, act) => { const b = make("button", text); b.type = "button"; b.setAttribute("aria-label", label); b.addEventListener("click", act); return b; };

// table fills t. A row whose text is the same as before stays, so that a focused button in it stays too.
function table(t, heads, rows) {
  if (!t.tHead) {
    const tr = make("tr");
    for (const h of heads) { const th = make("th", h); th.scope = "col"; tr.append(th); }
    t.createTHead().append(tr);
    t.createTBody();
  }
  const was = new Map([...t.tBodies[0].rows].map((r) => [r.dataset.key, r]));
  t.tBodies[0].replaceChildren(...rows.map(({ key, cells, acts }) => {
    let tr = was.get(key);
    if (!tr) {
      tr = make("tr");
      tr.dataset.key = key;
      for (const c of cells) tr.append(make("td", "", c && c.name));
      if (acts) { const td = make("td"); td.append(...acts); tr.append(td); }
    }
    cells.forEach((c, i) => { const text = String(c && c.text !== undefined ? c.text : c); if (tr.cells[i].textContent !== text) tr.cells[i].textContent = text; });
    return tr;
  }));
  t.hidden = false;
}

// confirmed asks before it acts.
let pending = null;
function confirmed(text, path, number) {
  $("ask-text").textContent = text;
  $("ask-field").hidden = number === undefined;
  if (number !== undefined) $("ask-number").value = number;
  pending = { path, number };
  $("ask").showModal();
}
$("ask-no").addEventListener("click", () => $("ask").close());
$("ask-yes").addEventListener("click", async () => {
  $("ask").close();
  const body = pending.number === undefined ? undefined : JSON.stringify({ size: $("ask-number").valueAsNumber });
  const res = await fetch(pending.path, { method: "POST", body });
  say(res.ok ? "done" : await res.text(), res.ok);
});
const say = (text, good) => { const p = $("link"); p.textContent = text; p.className = good ? "good" : "bad"; };

const past = { t: [], ready: [], booting: [], leased: [], waiting: [], p50: [], p99: [], hits: [], calls: [], rate: [] };
const keep = 900;
let charts = [];
function chart(id, series) {
  const style = getComputedStyle(document.documentElement);
  const axis = { stroke: style.getPropertyValue("--quiet"), grid: { stroke: style.getPropertyValue("--line"), width: 1 } };
  const colours = [style.getPropertyValue("--accent"), style.getPropertyValue("--quiet"), style.getPropertyValue("--good"), style.getPropertyValue("--bad")];
  const u = new uPlot({
    width: $(id).clientWidth || 320, height: 180, axes: [axis, { ...axis, size: 64 }], scales: { y: { range: (_, lo, hi) => [0, Math.max(1, hi)] } },
    series: [{}, ...series.map(([label], i) => ({ label, stroke: colours[i], width: 2 }))],
  }, [past.t, ...series.map(([, key]) => past[key])], $(id));
  charts.push({ u, id, keys: series.map(([, key]) => key) });
}
function drawCharts() {
  for (const c of charts) { c.u.destroy(); }
  charts = [];
  chart("chart-pool", [["ready", "ready"], ["booting", "booting"], ["leased", "leased"], ["waiting", "waiting"]]);
  chart("chart-hits", [["hits %", "rate"]]);
  chart("chart-latency", [["median", "p50"], ["99 %", "p99"]]);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
addEventListener("resize", () => { for (const c of charts) c.u.setSize({ width: $(c.id).clientWidth, height: 180 }); });

function point(t, ready, booting, leased, waiting, hits, calls, p50, p99) {
  const n = past.t.length;
  past.t.push(t); past.ready.push(ready); past.booting.push(booting); past.leased.push(leased); past.waiting.push(waiting);
  past.hits.push(hits); past.calls.push(calls); past.p50.push(p50 || null); past.p99.push(p99 || null);
  let h = 0, c = 0;
  for (let i = Math.max(0, n - 59); i <= n; i++) { h += past.hits[i]; c += past.calls[i]; }
  past.rate.push(c ? 100 * h / c : null);
  for (const k of Object.keys(past)) if (past[k].length > keep) past[k].shift();
}

let counted = null;
function onState(s) {
  $("who").textContent = `process ${s.pid}, ${s.version}, since ${new Date(s.started).toLocaleString()}`;
  const health = $("health");
  const words = s.health.ready ? "ready" : "not ready: " + (s.health.causes || []).join("; ");
  if (health.textContent !== words) { health.textContent = words; health.className = s.health.ready ? "good" : "bad"; }
  const sum = (key) => s.pools.reduce((n, p) => n + p[key], 0);
  const hits = sum("hits"), calls = hits + sum("waits") + sum("colds") + sum("rejected");
  point(Date.parse(s.at) / 1000, sum("ready"), sum("booting"), sum("leased"), sum("waiting"), counted ? hits - counted.hits : 0, counted ? calls - counted.calls : 0, s.p50Ms, s.p99Ms);
  counted = { hits, calls };
  for (const c of charts) c.u.setData([past.t, ...c.keys.map((k) => past[k])]);
  showPools(s.pools);
  table($("flight"), ["request", "state", "for", "sandbox", "inner calls", "actions"], s.inFlight.map((c) => ({
    key: c.id, cells: [c.id, c.state, ms(c.tookMs), c.sandbox || "", c.innerCount],
    acts: [button("Show", "Show call " + c.id, () => showCall(c.id)), button("Kill", "Kill call " + c.id, () => confirmed(`Kill call ${c.id}?`, `api/calls/${encodeURIComponent(c.id)}/kill`))],
  })));
  table($("boxes"), ["sandbox", "state", "age", "CPU", "peak memory", "request"], s.sandboxes.map((b) => ({
    key: b.id, cells: [b.id, b.state, ms(b.ageMs), ms(b.cpuMs), bytes(b.peakMemoryBytes), b.request || ""] })));
  table($("servers"), ["server", "state", "calls", "failed", "mean", "in flight", "started", "error", "stderr, the end", "actions"], s.servers.map((v) => ({
    key: v.name, cells: [v.name, v.state, v.calls, v.failures, ms(v.meanMs), v.inFlight, v.starts, { text: v.error || "", name: "words" }, { text: v.stderr || "", name: "words" }],
    acts: [button("Restart", "Restart server " + v.name, () => confirmed(`Restart server ${v.name}? Calls to it that are under way fail; the next one connects anew.`, `api/servers/${encodeURIComponent(v.name)}/restart`))],
  })));
  put($("turns"), ...[...s.turns].reverse().map((t) => make("li", `${clock(t.at)} ${t.ready ? "ready" : "not ready: " + (t.causes || []).join("; ")}`)));
  if (s.ended !== onState.ended) { onState.ended = s.ended; loadLast(); }
}

function showPools(pools) {
  const box = $("pools");
  for (const p of pools) {
    let line = [...box.children].find((e) => e.dataset.key === p.profile);
    if (!line) {
      line = make("p");
      line.dataset.key = p.profile;
      line.append(make("span"), " ", button("Resize", "Resize pool " + p.profile, () => confirmed(`Resize pool ${p.profile}?`, `api/pools/${encodeURIComponent(p.profile)}/resize`, Number(line.dataset.size))), " ",
        button("Drain", "Drain pool " + p.profile, () => confirmed(`Drain pool ${p.profile} for good? This process then runs no more calls.`, `api/pools/${encodeURIComponent(p.profile)}/drain`)));
      box.append(line);
    }
    line.dataset.size = p.size;
    line.firstChild.textContent = `${p.profile}: ${p.ready} ready of ${p.size}, ${p.booting} booting, ${p.leased} leased, ${p.destroying} ending, ${p.waiting} wait, at most ${p.max}. ` +
      `Calls: ${p.hits} hit, ${p.waits} waited, ${p.colds} cold, ${p.rejected} rejected; ${p.lost} sandboxes lost; a boot takes ${ms(p.bootMs)}.` + (p.bootError ? ` Boots fail: ${p.bootError}` : "") + (p.draining ? " Drained: it runs no more calls." : "");
  }
}

async function loadLast() {
  const calls = await (await fetch("api/calls")).json();
  table($("last"), ["request", "at", "status", "pool", "whole", "queue", "thaw", "run", "CPU", "peak", "inner", "actions"], calls.map((c) => ({
    key: c.id, cells: [c.id, clock(c.began), c.error ? c.status + ": " + c.error : c.status, c.pool || "", ms(c.tookMs), ms(c.queueMs), ms(c.thawMs), ms(c.runMs), ms(c.cpuMs), bytes(c.peakMemoryBytes), c.innerCount],
    acts: [button("Show", "Show call " + c.id, () => showCall(c.id))],
  })));
}

async function showCall(id) {
  const res = await fetch("api/calls/" + encodeURIComponent(id));
  if (!res.ok) { say(await res.text(), false); return; }
  const c = await res.json();
  $("one").hidden = false;
  $("one-h").textContent = "Call " + c.id;
  const facts = { status: c.status || c.state, error: c.error, "exit code": c.exitCode, began: new Date(c.began).toLocaleString(), whole: ms(c.tookMs), pool: c.pool, sandbox: c.sandbox,
    queue: ms(c.queueMs), thaw: ms(c.thawMs), run: ms(c.runMs), CPU: ms(c.cpuMs), "peak memory": bytes(c.peakMemoryBytes), trace: c.trace };
  put($("receipt"), ...Object.entries(facts).filter(([, v]) => v !== undefined && v !== "").map(([k, v]) => { const d = make("div"); d.append(make("dt", k), make("dd", v)); return d; }));
  const inner = c.inner || [], whole = Math.max(c.tookMs, 1);
  put($("waterfall"), ...inner.map((i) => {
    const li = make("li"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), r = document.createElementNS(svg.namespaceURI, "rect");
    svg.setAttribute("viewBox", "0 0 100 10"); svg.setAttribute("preserveAspectRatio", "none"); svg.setAttribute("aria-hidden", "true");
    r.setAttribute("x", 100 * i.startMs / whole); r.setAttribute("width", Math.max(0.4, 100 * (i.ms || whole - i.startMs) / whole)); r.setAttribute("y", 1); r.setAttribute("height", 8);
    if (i.outcome && i.outcome !== "ok" && i.outcome !== "planned") r.setAttribute("class", "failed");
    svg.append(r);
    li.append(make("span", `${i.server ? i.server + "." : ""}${i.tool}: ${i.outcome || "goes on"}, ${ms(i.ms)}, ${bytes(i.bytesIn)} in, ${bytes(i.bytesOut)} out`), svg);
    return li;
  }));
  if (c.innerCount > inner.length) $("waterfall").append(make("li", `and ${c.innerCount - inner.length} more`));
  $("stdout").textContent = c.stdout || "";
  $("stderr").textContent = c.stderr || "";
  $("code-part").hidden = !c.code;
  $("code").textContent = c.code || "";
  $("one-h").focus();
}
$("one-close").addEventListener("click", () => { $("one").hidden = true; });
$("checks-now").addEventListener("click", async () => {
  const checks = await (await fetch("api/checks")).json();
  put($("checks"), ...checks.map((c) => {
    const li = make("li");
    li.append(make("span", c.ok ? "ok" : c.fatal ? "fails" : "warning", c.ok ? "good" : "bad"), ` ${c.title}: ${c.detail || ""}${c.fix ? " — mend it: " + c.fix : ""}`);
    return li;
  }));
});

async function start() {
  for (const s of await (await fetch("api/history")).json()) point(s.t, s.ready, s.booting, s.leased, s.waiting, s.hits, s.calls, s.p50, s.p99);
  drawCharts();
  const events = new EventSource("api/events");
  events.addEventListener("message", (e) => onState(JSON.parse(e.data)));
  events.addEventListener("open", () => say("live", true));
  events.addEventListener("error", () => say("the process does not answer; trying again", false));
}
start();
