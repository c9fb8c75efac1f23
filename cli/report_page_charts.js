// Charts and tables below the pictures.

// ---- charts

const niceStep = (span, n) => { const raw = span / n, power = 10 ** Math.floor(Math.log10(raw)); return [1, 2, 2.5, 5, 10].find((k) => k * power >= raw) * power; };
function ticks(low, high, n) {
  if (!(high > low)) return [low];
  const by = niceStep(high - low, n), list = [];
  for (let k = Math.ceil(low / by - 1e-9); k * by <= high + 1e-9 * by; k++) list.push(k * by);
  return list;
}
const tickText = (x, list) => { const by = list.length > 1 ? list[1] - list[0] : Math.abs(x) || 1; return Math.abs(x) >= 1e6 ? real(x, 3) : x.toFixed(Math.max(0, Math.min(6, Math.ceil(-Math.log10(by) - 1e-9) + (by.toExponential()[1] === "." ? 1 : 0)))).replace("-", "\u2212"); };

// A frame of 400 x height, with axes; returns what a chart needs to draw in it.
function frame(label, height, x, y, { yTicks = 3, left = 44, xTicks = 5 } = {}) {
  const W = 400, right = 8, top = 8, bottom = 26;
  const sx = (v) => left + ((v - x[0]) / (x[1] - x[0] || 1)) * (W - left - right), sy = (v) => height - bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (height - top - bottom);
  const svg = s("svg", { viewBox: `0 0 ${W} ${height}`, role: "img", "aria-label": label });
  const ys = ticks(y[0], y[1], yTicks), xs = ticks(x[0], x[1], xTicks);
  for (const v of yTicks ? ys : []) svg.append(s("path", { class: "grid", d: `M${left} ${sy(v)}H${W - right}` }), s("text", { x: left - 7, y: sy(v) + 4, "text-anchor": "end" }, tickText(v, ys)));
  svg.append(s("path", { class: "axis", d: `M${left} ${height - bottom}H${W - right}` }));
  for (const v of xs) svg.append(s("text", { x: sx(v), y: height - 8, "text-anchor": "middle" }, tickText(v, xs)));
  return { svg, sx, sy, bottom: height - bottom, W, left, right };
}

const chart = (title, svg) => h("div", { class: "chart" }, h("h3", {}, ...[].concat(title)), svg);

function histogram(list, low, high, bins) {
  const counts = new Float64Array(bins);
  let n = 0;
  for (const x of list) {
    if (x === null) continue;
    counts[Math.max(0, Math.min(bins - 1, Math.floor(((x - low) / (high - low)) * bins)))]++;
    n++;
  }
  return counts.map((c) => c / (n || 1));
}

function stairs(f, counts, low, high, closed) {
  const step = (high - low) / counts.length;
  let d = `M${f.sx(low)} ${f.bottom}`;
  counts.forEach((c, i) => { d += `V${f.sy(c).toFixed(1)}H${f.sx(low + (i + 1) * step).toFixed(1)}`; });
  return d + `V${f.bottom}` + (closed ? "Z" : "");
}

function table(caption, columns, rows, most = 500) {
  const cell = (c, row) => { const value = c.value(row); return h("td", { class: c.text ? "name" : "number", title: c.text ? clean(value) : null }, c.text ? name(value) : value); };
  const body = rows.slice(0, most).map((row) => h("tr", {}, columns.map((c) => cell(c, row))));
  const more = rows.length > most ? h("p", { class: "note" }, `${whole(rows.length - most)} rows more are not shown here.`) : null;
  return [h("div", { class: "scroll", tabindex: rows.length > 14 ? "0" : null, role: rows.length > 14 ? "region" : null, "aria-label": rows.length > 14 ? caption : null },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, columns.map((c) => h("th", { class: c.text ? "" : "number", scope: "col" }, ...[].concat(c.title))))), h("tbody", {}, body))), more];
}

const momentKeys = () => two && h("div", { class: "keys" }, h("span", {}, h("i", { class: "before" }), "before, ", name(D.bases[0].key)), h("span", {}, h("i"), "after, ", name(D.bases[1].key)));

// ---- LISI

// Before above after, on one axis. Each has a height of its own: a peak of one would flatten the other.
function lisiChart(v) {
  const all = sortedValues(v.lisi.map((l) => l.values).flat()), high = Math.max(1.5, Math.ceil((all.length ? all[all.length - 1] : 2) * 20) / 20), bins = 60;
  const row = 74, f = frame(`Distribution of the LISI of ${clean(v.name)}`, 34 + row * v.lisi.length, [1, high], [0, 1], { yTicks: 0, left: 6 });
  v.lisi.forEach((l, k) => {
    const kind = two && k === 0 ? "before" : "after", counts = histogram(l.values, 1, high, bins), most = Math.max(...counts, 1e-9), floor = f.bottom - row * (v.lisi.length - 1 - k);
    const row_of = { sx: f.sx, sy: (c) => floor - (c / most) * (row - 14), bottom: floor };
    f.svg.append(s("path", { class: "grid", d: `M${f.left} ${floor}H${f.W - f.right}` }), s("path", { class: kind + "-area", d: stairs(row_of, counts, 1, high, true) }), s("path", { class: kind + "-line", d: stairs(row_of, counts, 1, high, false) }));
    if (l.mean !== null) f.svg.append(s("path", { class: "median", d: `M${f.sx(l.mean)} ${floor + 4}V${floor - 8}` }, s("title", {}, "mean " + real(l.mean, 4))));
  });
  return chart(["LISI of ", name(v.name)], f.svg);
}

function lisi() {
  const rows = D.variables.flatMap((v) => v.lisi.map((l, k) => ({ v, l, k, sorted: sortedValues(l.values) })));
  byId("lisi-body").append(
    h("p", { class: "note" }, `LISI counts the levels around a cell, weighted by nearness (perplexity ${D.perplexity}): 1 when all its neighbours are of one level. For batches high is well mixed; for cell types it should stay near 1. The tick is the mean. Neighbours are exact, among all cells; ` + (D.sampled < D.cells ? `${whole(D.sampled)} sampled cells were looked at.` : "every cell was looked at.")),
    momentKeys() || "", h("div", { class: "charts" }, D.variables.map(lisiChart)),
    ...table("LISI", [
      { title: "column", text: true, value: (r) => r.v.name }, { title: "embedding", text: true, value: (r) => D.bases[r.k].key },
      { title: "levels", value: (r) => whole(r.v.levels) }, { title: "mean", value: (r) => real(r.l.mean, 4) }, { title: "± s.e.", value: (r) => real(r.l.error, 2) },
      { title: "5 %", value: (r) => real(quantile(r.sorted, 0.05)) }, { title: "25 %", value: (r) => real(quantile(r.sorted, 0.25)) }, { title: "median", value: (r) => real(quantile(r.sorted, 0.5)) },
      { title: "75 %", value: (r) => real(quantile(r.sorted, 0.75)) }, { title: "95 %", value: (r) => real(quantile(r.sorted, 0.95)) }], rows).filter(Boolean));
}

// ---- moves

const STRIPS = 24;
// A row for each level: 5 to 95 % as a line, the middle half as a box, the median.
function strips(v, high) {
  const groups = v.names.map(() => []);
  D.moved.forEach((m, i) => { if (v.level[i] >= 0) groups[v.level[i]].push(m); });
  let rows = v.names.map((text, k) => ({ text: clean(text), sorted: sortedValues(groups[k]) })).filter((r) => r.sorted.length);
  const total = rows.length;
  if (rows.length > STRIPS) rows = rows.sort((a, b) => quantile(b.sorted, 0.5) - quantile(a.sorted, 0.5)).slice(0, STRIPS);
  const line = 17, f = frame(`How far cells moved, by ${clean(v.name)}`, rows.length * line + 42, [0, high], [0, 1], { yTicks: 0, left: 112, xTicks: 4 });
  rows.forEach((r, k) => {
    const y = 8 + line * (k + 0.5), q = (p) => f.sx(Math.min(high, quantile(r.sorted, p)));
    f.svg.append(s("text", { x: 104, y: y + 4, "text-anchor": "end" }, s("title", {}, r.text), r.text.length > 17 ? r.text.slice(0, 16) + "…" : r.text),
      s("path", { class: "whisker", d: `M${q(0.05)} ${y}H${q(0.95)}` }), s("rect", { class: "box", x: q(0.25), y: y - 4.5, width: Math.max(1, q(0.75) - q(0.25)), height: 9 }), s("path", { class: "median", d: `M${q(0.5)} ${y - 6}V${y + 6}` }));
  });
  return chart(["By ", name(v.name), total > STRIPS ? `: the ${STRIPS} that moved farthest of ${whole(total)}` : ""], f.svg);
}

function moves() {
  const body = byId("moves-body");
  if (!D.moved) {
    body.append(h("p", { class: "note" }, two ? "The two embeddings have different numbers of dimensions, so there is no distance between a cell before and after." : "Only one embedding is shown, so nothing has moved."));
    return;
  }
  const all = sortedValues(D.moved), high = quantile(all, 0.999) || 1, bins = 60;
  if (all[all.length - 1] === 0) {
    body.append(h("p", { class: "note" }, "No cell moved: the two embeddings are the same."));
    return;
  }
  const counts = histogram(D.moved, 0, high, bins), f = frame("Distribution of how far cells moved", 190, [0, high], [0, Math.max(...counts) * 1.05], { yTicks: 0, left: 6 });
  f.svg.append(s("path", { class: "after-area", d: stairs(f, counts, 0, high, true) }), s("path", { class: "after-line", d: stairs(f, counts, 0, high, false) }));
  body.append(h("p", { class: "note" }, `Euclidean distance between a cell before and after, in the units of the embedding. Median ${real(quantile(all, 0.5))}, 99 % below ${real(quantile(all, 0.99))}, most ${real(all[all.length - 1])} among the sampled cells. A level that moved much farther than the others deserves a look. Bars span the middle half of the cells, lines 5 to 95 %.`),
    h("div", { class: "charts" }, chart("All sampled cells", f.svg), D.variables.map((v) => strips(v, high))));
}

// ---- convergence

function objectiveTerms() {
  if (trace && Array.isArray(trace.objective) && trace.objective.length) {
    const column = (k) => trace.objective.map((o) => (Number.isFinite(o[k]) ? o[k] : null));
    return { run: null, round: column("round"), objective: column("total"), distance: column("distance"), entropy: column("entropy"), diversity: column("diversity") };
  }
  if (!lines("trace/objective")) return null;
  return Object.fromEntries(["run", "round", "objective", "distance", "entropy", "diversity"].map((k) => [k, numbers("trace/" + k)]));
}

function termChart(title, rounds, values, runs) {
  const points = values.map((y, x) => [x, y]).filter((p) => p[1] !== null), ys = points.map((p) => p[1]), low = Math.min(...ys), high = Math.max(...ys), pad = (high - low) * 0.08 || Math.abs(high) * 0.01 || 1;
  const f = frame(title + " after every sweep that has one", 180, [0, Math.max(1, values.length - 1)], [low - pad, high + pad], { left: 56, xTicks: Math.min(6, values.length) });
  for (let i = 1; i < rounds.length; i++)
    if (rounds[i] !== rounds[i - 1]) f.svg.append(s("path", { class: "grid", d: `M${f.sx(i - 0.5)} 8V${f.bottom}` }));
  f.svg.append(s("path", { class: "after-line", d: points.map(([x, y], i) => `${i && !(runs && runs[x] !== runs[points[i - 1][0]]) ? "L" : "M"}${f.sx(x).toFixed(1)} ${f.sy(y).toFixed(1)}`).join("") }),
    ...points.map(([x, y]) => s("circle", { class: "dot", cx: f.sx(x), cy: f.sy(y), r: 2.6 }, s("title", {}, `round ${rounds[x] ?? "–"}: ${real(y, 6)}`))));
  return chart(title, f.svg);
}

function convergence() {
  const body = byId("convergence-body"), terms = objectiveTerms();
  if (!terms || !terms.objective || !terms.objective.some((x) => x !== null)) {
    body.append(h("p", { class: "note" }, "The file does not say how the run went: uns/", name(D.bases[D.bases.length - 1].key), " has no trace. unisono integrate writes one."));
    return;
  }
  const has = (k) => terms[k] && terms[k].some((x) => x !== null), list = [["Objective", terms.objective]];
  if (has("distance")) list.push(["Distance term", terms.distance]);
  if (has("entropy")) list.push(["Entropy term", terms.entropy]);
  if (!has("distance") && has("diversity")) list.push(["Distance and entropy terms", terms.objective.map((o, i) => (o === null || terms.diversity[i] === null ? null : o - terms.diversity[i]))]);
  if (has("diversity")) list.push(["Diversity term", terms.diversity]);
  body.append(h("p", { class: "note" }, "The objective after the sweeps that have one, in their order; upright lines separate rounds. It falls within a round. From round to round it may rise, because the cells were moved in between."),
    h("div", { class: "charts" }, list.map(([title, values]) => termChart(title, terms.round || [], values, terms.run))));
  const columns = ["sweeps", "objective", "objective_change", "change", "pruned_pairs", "skipped_clusters"].map((k) => [k, numbers("rounds/" + k)]).filter(([, v]) => v);
  const titles = { sweeps: "sweeps", objective: "objective", objective_change: "relative change of it", change: "change of the correction", pruned_pairs: "pairs left out", skipped_clusters: "clusters left out" };
  if (columns.length)
    body.append(...table("Rounds", [{ title: "round", value: (r) => r + 1 }, ...columns.map(([k, v]) => ({ title: titles[k], value: (r) => (Number.isInteger(v[r]) ? whole(v[r]) : real(v[r], 4)) }))], columns[0][1].map((_, i) => i)).filter(Boolean));
}

// ---- what moved, of all cells

// The run's own tables, of integrate: rows are in the order of the diagnosis.
function ofRun(levels) {
  const names = lines("diagnostics/levels"), part = (k) => numbers("diagnostics/level_" + k);
  if (!names || !levels.every((l) => names[l.row] === (l.name ?? ""))) return [];
  const column = (title, k, show) => { const v = part(k); return v ? [{ title, value: (r) => show(v[r.row]) }] : []; };
  return [...column("mass not corrected", "uncorrected", percent), ...column("on less than a cell", "thin_mass", percent), ...column("clusters left out", "pruned", (x) => (x === null ? "–" : whole(x)))];
}

// How far each level is moved in each cluster: clusters by mass, pairs that were left out crossed.
const PAIR_LEVELS = 60;
function pairs(mass) {
  const names = lines("diagnostics/levels"), length = numbers("diagnostics/pair_length"), lambda = numbers("diagnostics/pair_lambda"), K = mass.length;
  if (!names || !length || !lambda || length.length !== names.length * K || names.length > PAIR_LEVELS) return null;
  const order = mass.map((m, k) => k).sort((a, b) => mass[b] - mass[a]), most = quantile(sortedValues(length), 0.99) || 1, left = 112, W = 1100, wide = Math.min(16, (W - left) / K), high = 16;
  const svg = s("svg", { viewBox: `0 0 ${W} ${names.length * high + 22}`, role: "img", "aria-label": "How far each level is moved in each cluster" });
  names.forEach((text, b) => {
    svg.append(s("text", { x: left - 8, y: high * b + 12, "text-anchor": "end" }, s("title", {}, clean(text)), clean(text).length > 17 ? clean(text).slice(0, 16) + "…" : clean(text)));
    order.forEach((k, at) => {
      const value = length[b * K + k], out = lambda[b * K + k] === 0, x = left + at * wide, y = high * b;
      const what = s("title", {}, `${clean(text)}, cluster ${k + 1} (${real(mass[k])} cells): ${out ? "left out" : real(value)}`);
      svg.append(out || value === null ? s("path", { class: "grid", d: `M${x + 2} ${y + 2}L${x + wide - 2} ${y + high - 3}` }, what)
        : s("rect", { class: "heat", x, y, width: wide - 1, height: high - 1, "fill-opacity": Math.max(0.04, Math.min(1, value / most)).toFixed(3) }, what));
    });
  });
  svg.append(s("text", { x: left, y: names.length * high + 14 }, `clusters, the heaviest first; darkest: ${real(most)} and more; crossed: left out`));
  return h("div", { class: "chart wide" }, h("h3", {}, "How far each level is moved in each cluster"), svg);
}

function clusters(body) {
  const part = (k) => numbers("diagnostics/cluster_" + k), mass = part("mass"), names = lines("diagnostics/levels") || [];
  if (!mass) return;
  const picture = pairs(mass);
  if (picture) body.append(picture);
  const column = (title, k, show) => { const v = part(k); return v && v.length === mass.length ? [{ title, value: (r) => show(v[r]) }] : []; };
  const longest = part("longest");
  body.append(...table("Clusters, by mass", [{ title: "cluster", value: (r) => r + 1 }, { title: "mass", value: (r) => real(mass[r]) }, ...column("mixing", "mixing", (x) => real(x)), ...column("correction, median", "length_median", (x) => real(x)),
    ...column("longest", "length_max", (x) => real(x)), ...(longest ? [{ title: "of", text: true, value: (r) => names[longest[r]] ?? "–" }] : []), ...column("levels", "levels", (x) => whole(x)), ...column("left out", "pruned", (x) => whole(x)), ...column("on less than a cell", "thin", (x) => whole(x))],
    mass.map((_, k) => k).sort((a, b) => mass[b] - mass[a])).filter(Boolean));
}

const percent = (x) => (x === null || x === undefined ? "–" : (100 * x).toFixed(1).replace(/^-(?=0\.0$)/, "").replace("-", "\u2212") + "\u202f%");
function diagnosis() {
  const d = D.diagnosis, body = byId("diagnostics-body");
  if (!d) return;
  byId("diagnostics").hidden = false;
  const rest = (n, all) => (n < all ? `, the ${whole(n)} of ${whole(all)} that moved farthest` : "");
  body.append(h("p", { class: "note" }, `Of all ${plural(D.cells, "cell")}, those that moved farthest first. Lengths are in the units of the embedding; half of all cells moved less than ${real(d.median)}, all but one in a thousand less than ${real(d.p999)}. Spread is the root mean square distance of a cell from the centre of its kind: a correction should move cells and leave their spread.`),
    ...table("Batches" + rest(d.levels.length, d.n_levels), [
      ...(BATCHES.length > 1 ? [{ title: "column", text: true, value: (r) => r.variable }] : []), { title: "level", text: true, value: (r) => r.name ?? "–" }, { title: "cells", value: (r) => whole(r.cells) },
      { title: "moved, median", value: (r) => real(r.median) }, { title: "99.9 %", value: (r) => real(r.p999) }, { title: "most", value: (r) => real(r.most) }, { title: "from the rest", value: (r) => real(r.distance) },
      { title: "spread before", value: (r) => real(r.spread) }, { title: "kept", value: (r) => percent(r.kept) }, ...ofRun(d.levels)], d.levels).filter(Boolean));
  if (d.types.length)
    body.append(...table("Cell types" + rest(d.types.length, d.n_types), [
      { title: "type", text: true, value: (r) => r.name ?? "–" }, { title: "cells", value: (r) => whole(r.cells) },
      ...BATCHES.map((v, k) => ({ title: ["levels of ", name(v.name)], value: (r) => `${whole(r.levels[k])} of ${whole(v.levels)}` })),
      { title: "moved, median", value: (r) => real(r.median) }, { title: "99.9 %", value: (r) => real(r.p999) }, { title: "its centre", value: (r) => real(r.moved) }, { title: "spread before", value: (r) => real(r.spread) },
      { title: "of it removed", value: (r) => percent(r.removed) }, { title: "nearest type", text: true, value: (r) => r.nearest ?? "–" }, { title: "its distance before", value: (r) => real(r.nearest_before) }, { title: "after", value: (r) => real(r.nearest_after) }], d.types).filter(Boolean));
  clusters(body);
}

// ---- the run

const facts = (pairs) => h("dl", { class: "facts" }, pairs.filter((p) => p[1] !== undefined && p[1] !== null && p[1] !== "").map(([k, v]) => h("div", {}, h("dt", {}, clean(k)), h("dd", {}, typeof v === "string" ? name(v) : v))));
const bytes = (n) => { const units = ["bytes", "kB", "MB", "GB", "TB"]; let u = 0; while (n >= 1000 && u < 4) { n /= 1000; u++; } return (u ? real(n) : n) + " " + units[u]; };

function run() {
  const body = byId("run-body"), r = D.run, params = Object.keys(r).filter((k) => k.startsWith("params/"));
  body.append(facts([["file", D.file], ["cells", whole(D.cells)], ...D.bases.map((b, k) => [two ? (k ? "after" : "before") : "embedding", `${clean(b.key)}, ${plural(b.dims, "dimension")}`]), ...D.variables.map((v) => [v.batch ? "batch" : "label", `${clean(v.name)}, ${plural(v.levels, "level")}${v.missing ? `, ${whole(v.missing)} missing` : ""}`])]));
  if (r.program === undefined && r.method === undefined) {
    body.append(h("p", { class: "note" }, "uns/", name(D.bases[D.bases.length - 1].key), " does not say with what it was made, so there are no parameters to show."));
    return;
  }
  body.append(h("h3", {}, "Made by"), facts([["program", `${r.program ?? ""} ${r.version ?? ""}`.trim()], ["method", r.method], ["batch", r.batch], ["backend", r.backend], ["threads", r.threads], ["seed", r.seed], ["clusters", r.n_clusters], ["rounds", r.n_rounds], ["stopped because", r.reason], ["cells left as they were", r.n_cells_skipped]]));
  if (params.length) body.append(h("h3", {}, "Parameters"), facts(params.sort().map((k) => [k.slice(7), r[k]])));
  if (trace && trace.seconds && typeof trace.seconds === "object") {
    const seconds = Object.entries(trace.seconds).filter((p) => typeof p[1] === "number");
    body.append(h("h3", {}, "Time and memory, from the trace"), facts([...seconds.map(([k, v]) => [k.replace(/_/g, " "), real(v) + " s"]), ["memory, most", typeof trace.memory_peak_bytes === "number" ? bytes(trace.memory_peak_bytes) : null], ["memory, predicted", typeof trace.memory_predicted_bytes === "number" ? bytes(trace.memory_predicted_bytes) : null]]));
  } else if (D.trace !== null) body.append(h("p", { class: "note" }, "The trace that was given cannot be read as JSON."));
  else body.append(h("p", { class: "note" }, "Times and memory are not kept in the file, so that the same run writes the same bytes. unisono integrate --trace run.json writes them, unisono report --trace run.json shows them here."));
}

heading();
summary();
findings();
pictures();
lisi();
moves();
convergence();
diagnosis();
run();
applyTheme();
