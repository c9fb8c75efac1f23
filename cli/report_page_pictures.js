// The pictures: canvases, legend, filter, and one cell picked out in all panels.

const SHAPES = 6, BINS = 8;
// Viridis, cut so that both ends are seen on their ground.
const RAMP_LIGHT = ["#a5db36", "#5ec962", "#2fb47c", "#21918c", "#2c728e", "#3b528b", "#472d7b", "#440154"];
const RAMP_DARK = ["#433e85", "#3b528b", "#2c728e", "#21918c", "#27ad81", "#5ec962", "#a5db36", "#fde725"];

// ---- colourings: a code for each cell and panel, -1 where there is none

function levelColouring(v) {
  return { title: v.name, codes: [v.level, v.level], names: v.names.map(clean), counts: v.cells,
    colour: (code) => D.palette[code % D.palette.length], shape: (code) => Math.floor(code / D.same_shape) % SHAPES, differs: false };
}

function binColouring(title, values, low, high, fixed) {
  const step = (high - low) / BINS || 1, bin = (x) => (x === null ? -1 : Math.max(0, Math.min(BINS - 1, Math.floor((x - low) / step))));
  const codes = values.map((list) => list.map(bin)), counts = new Array(BINS).fill(null);
  const names = counts.map((_, i) => `${real(low + i * step)} – ${i < BINS - 1 || fixed ? real(low + (i + 1) * step) : "more"}`);
  return { title, codes: [codes[0], codes[1] || codes[0]], names, counts,
    colour: (code) => (isDark() ? RAMP_DARK : RAMP_LIGHT)[code], shape: () => 0, differs: codes.length > 1 };
}

function colourings() {
  const list = D.variables.map(levelColouring);
  D.variables.forEach((v) => {
    const values = v.lisi.map((l) => l.values), all = sortedValues(values.flat());
    list.push(binColouring("LISI of " + v.name, values, 1, Math.max(1.2, all.length ? all[all.length - 1] : 2), true));
  });
  if (D.moved) list.push(binColouring("How far it moved", [D.moved], 0, quantile(sortedValues(D.moved), 0.99) || 1, false));
  return list;
}

const colours = colourings();
const state = { colour: 0, layout: 0, hidden: new Map(), emphasis: null, cell: -1, pinned: false };
const panels = [];

// A cell is hidden when any of the colourings that were filtered hides it.
function isShown(i, panel) {
  for (const [c, hidden] of state.hidden)
    if (hidden.has(colours[c].codes[panel][i])) return false;
  return true;
}

// ---- marks

function drawMark(g, shape, x, y, r) {
  g.beginPath();
  if (shape === 0) g.arc(x, y, r, 0, 2 * Math.PI);
  else if (shape === 1) g.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r);
  else if (shape === 2) { g.moveTo(x, y - 1.25 * r); g.lineTo(x + 1.2 * r, y + 0.85 * r); g.lineTo(x - 1.2 * r, y + 0.85 * r); g.closePath(); }
  else if (shape === 3) { g.moveTo(x, y - 1.35 * r); g.lineTo(x + 1.35 * r, y); g.lineTo(x, y + 1.35 * r); g.lineTo(x - 1.35 * r, y); g.closePath(); }
  else if (shape === 4) { g.moveTo(x - 1.3 * r, y); g.lineTo(x + 1.3 * r, y); g.moveTo(x, y - 1.3 * r); g.lineTo(x, y + 1.3 * r); }
  else { g.moveTo(x - r, y - r); g.lineTo(x + r, y + r); g.moveTo(x + r, y - r); g.lineTo(x - r, y + r); }
  if (shape < 4) g.fill();
  else { g.lineWidth = 0.75 * r; g.stroke(); }
}

// A mark drawn once, as pixels; tens of thousands are laid over each other by hand, which is the same work on every machine.
function sprite(colour, shape, radius, scale) {
  const size = Math.ceil((2.8 * radius + 2) * scale), c = document.createElement("canvas");
  c.width = c.height = size;
  const g = c.getContext("2d", { willReadFrequently: true });
  g.scale(scale, scale);
  g.fillStyle = g.strokeStyle = colour;
  drawMark(g, shape, size / scale / 2, size / scale / 2, radius);
  return { size, data: g.getImageData(0, 0, size, size).data };
}

function stamp(image, { size, data }, x, y) {
  const to = image.data, width = image.width, left = Math.round(x - size / 2), top = Math.round(y - size / 2);
  if (left < 0 || top < 0 || left + size > width || top + size > image.height) return;
  for (let row = 0; row < size; row++) {
    let at = 4 * ((top + row) * width + left), from = 4 * row * size;
    for (let k = 0; k < size; k++, at += 4, from += 4) {
      const share = data[from + 3] / 255;
      if (share === 0) continue;
      to[at] += (data[from] - to[at]) * share;
      to[at + 1] += (data[from + 1] - to[at + 1]) * share;
      to[at + 2] += (data[from + 2] - to[at + 2]) * share;
    }
  }
}

// ---- panels

function extent(panelsOf) {
  let low = [Infinity, Infinity], high = [-Infinity, -Infinity];
  for (const p of panelsOf)
    for (let i = 0; i < p.x.length; i++) {
      if (p.x[i] === null || p.y[i] === null) continue;
      low = [Math.min(low[0], p.x[i]), Math.min(low[1], p.y[i])];
      high = [Math.max(high[0], p.x[i]), Math.max(high[1], p.y[i])];
    }
  const wide = Math.max(high[0] - low[0], high[1] - low[1]);
  return { x: (low[0] + high[0]) / 2, y: (low[1] + high[1]) / 2, wide: Number.isFinite(wide) && wide > 0 ? wide : 1 };
}

function buildPanels() {
  const layout = D.layouts[state.layout], colouring = colours[state.colour];
  // One map for both: a second panel only where its colours differ.
  const n = layout.panels.length === 2 ? 2 : two && colouring.differs ? 2 : 1;
  panels.length = 0;
  const all = layout.same_axes ? extent(layout.panels) : null;
  byId("panels").replaceChildren();
  byId("panels").style.setProperty("--panels", n);
  byId("panels").classList.toggle("single", n === 1);
  for (let k = 0; k < n; k++) {
    const points = layout.panels[k] || layout.panels[0];
    const base = h("canvas", { class: "points", tabindex: "0", role: "img" }), over = h("canvas", { class: "over", "aria-hidden": "true" });
    const panel = { k, points, extent: all || extent([points]), base, over, n: layout.cells };
    const moment = n === 1 ? layout.moment : k ? "After" : "Before", what = n === 2 && layout.panels.length === 1 ? D.bases[k].key : points.of;
    base.setAttribute("aria-label", `${moment ? moment + ": " : ""}${clean(points.of)}, ${plural(layout.cells, "cell")} coloured by ${clean(colouring.title)}. Arrow keys go from cell to cell, Escape lets go.`);
    base.addEventListener("pointermove", (event) => { if (!state.pinned) pick(nearest(panel, event), panel, event); });
    base.addEventListener("pointerleave", () => { if (!state.pinned) pick(-1); });
    // What is under the pointer already is what is meant: a click's place is rounded to whole pixels, a move's is not.
    base.addEventListener("click", (event) => { const i = state.pinned || state.cell < 0 ? nearest(panel, event) : state.cell; state.pinned = i >= 0; pick(i, panel, event); });
    base.addEventListener("keydown", (event) => step(panel, event));
    byId("panels").append(h("figure", {}, h("figcaption", {}, moment && h("b", {}, moment), h("span", {}, name(what))), h("div", { class: "plot" }, base, over)));
    panels.push(panel);
  }
  byId("layout-note").textContent = clean(layout.note);
  draw();
}

const radiusOf = (panel) => Math.max(0.9, Math.min(3.6, Math.sqrt((0.13 * panel.size * panel.size) / Math.PI / panel.n)));

function place(panel) {
  const size = panel.base.clientWidth || 300, scale = Math.min(3, devicePixelRatio || 1), e = panel.extent, pad = 12;
  Object.assign(panel, { size, scale });
  for (const c of [panel.base, panel.over]) { c.width = c.height = Math.round(size * scale); }
  const k = (size - 2 * pad) / e.wide;
  panel.px = new Float32Array(panel.n); panel.py = new Float32Array(panel.n);
  panel.grid = new Map();
  for (let i = 0; i < panel.n; i++) {
    const x = panel.points.x[i], y = panel.points.y[i];
    panel.px[i] = x === null || y === null ? NaN : size / 2 + (x - e.x) * k;
    panel.py[i] = x === null || y === null ? NaN : size / 2 - (y - e.y) * k;
  }
}

function drawPanel(panel) {
  place(panel);
  const g = panel.base.getContext("2d", { willReadFrequently: true }), colouring = colours[state.colour], codes = colouring.codes[panel.k], r = radiusOf(panel);
  const sprites = new Map(), ghost = sprite(css("--ghost"), 0, Math.max(0.7, 0.7 * r), panel.scale);
  g.fillStyle = css("--sheet");
  g.fillRect(0, 0, panel.base.width, panel.base.height);
  const image = g.getImageData(0, 0, panel.base.width, panel.base.height);
  const put = (what, i) => stamp(image, what, panel.px[i] * panel.scale, panel.py[i] * panel.scale);
  panel.shown = new Uint8Array(panel.n);
  let shown = 0;
  for (let i = 0; i < panel.n; i++) {
    if (Number.isNaN(panel.px[i])) continue;
    panel.shown[i] = isShown(i, panel.k) ? 1 : 0;
    if (!panel.shown[i] || (state.emphasis !== null && codes[i] !== state.emphasis) || codes[i] < 0) put(ghost, i);
    shown += panel.shown[i];
  }
  for (let i = 0; i < panel.n; i++) {
    const code = codes[i];
    if (!panel.shown[i] || code < 0 || (state.emphasis !== null && code !== state.emphasis)) continue;
    if (!sprites.has(code)) sprites.set(code, sprite(colouring.colour(code), colouring.shape(code), r, panel.scale));
    put(sprites.get(code), i);
    const cell = (panel.px[i] >> 4) * 4096 + (panel.py[i] >> 4), list = panel.grid.get(cell);
    if (list) list.push(i); else panel.grid.set(cell, [i]);
  }
  g.putImageData(image, 0, 0);
  return shown;
}

function draw() {
  const shown = panels.map(drawPanel), n = D.layouts[state.layout].cells;
  byId("shown").textContent = (shown.every((x) => x === shown[0]) ? whole(shown[0]) : shown.map(whole).join(" and ")) + ` of ${plural(n, "cell")} shown`;
  byId("reset").hidden = ![...state.hidden.values()].some((set) => set.size);
  drawPicked();
}

// ---- on paper: drawings in place of canvases, which browsers print blurred or not at all

const PATHS = [
  (x, y) => `M${x} ${y}h0`, (x, y) => `M${x} ${y}h0`,
  (x, y, r) => `M${x} ${(y - 1.25 * r).toFixed(1)}l${1.2 * r} ${2.1 * r}h${-2.4 * r}z`, (x, y, r) => `M${x} ${(y - 1.35 * r).toFixed(1)}l${1.35 * r} ${1.35 * r}l${-1.35 * r} ${1.35 * r}l${-1.35 * r} ${-1.35 * r}z`,
  (x, y, r) => `M${(x - 1.3 * r).toFixed(1)} ${y}h${2.6 * r}M${x} ${(y - 1.3 * r).toFixed(1)}v${2.6 * r}`, (x, y, r) => `M${(x - r).toFixed(1)} ${(y - r).toFixed(1)}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}`];

function pathsOf(cells, panel, colour, shape, r) {
  const d = cells.map((i) => PATHS[shape](+panel.px[i].toFixed(1), +panel.py[i].toFixed(1), +r.toFixed(2))).join("");
  const line = shape < 2 || shape > 3;
  return s("path", { d, fill: line ? "none" : colour, stroke: line ? colour : "none", "stroke-width": shape > 3 ? 0.75 * r : 2 * r, "stroke-linecap": shape === 0 ? "round" : shape === 1 ? "square" : "butt" });
}

// In layers, within each of them by code, so that no level lies over all others.
function paper(panel) {
  const colouring = colours[state.colour], codes = colouring.codes[panel.k], r = radiusOf(panel), layer = Math.ceil(panel.n / 16);
  const svg = s("svg", { class: "paper", viewBox: `0 0 ${panel.size} ${panel.size}`, role: "img", "aria-label": panel.base.getAttribute("aria-label") });
  const ghosts = [], layers = new Map();
  for (let i = 0; i < panel.n; i++) {
    if (Number.isNaN(panel.px[i])) continue;
    if (!panel.shown[i] || codes[i] < 0) { ghosts.push(i); continue; }
    const key = Math.floor(i / layer) * 1e6 + codes[i];
    if (layers.has(key)) layers.get(key).push(i); else layers.set(key, [i]);
  }
  svg.append(pathsOf(ghosts, panel, css("--ghost"), 0, 0.7 * r));
  for (const key of [...layers.keys()].sort((a, b) => a - b)) svg.append(pathsOf(layers.get(key), panel, colouring.colour(key % 1e6), colouring.shape(key % 1e6), r));
  return svg;
}
const clearPaper = () => document.querySelectorAll(".paper").forEach((e) => e.remove());
addEventListener("beforeprint", () => { clearPaper(); panels.forEach((panel) => panel.base.parentNode.append(paper(panel))); });
addEventListener("afterprint", clearPaper);

// ---- one cell, in all panels

function drawPicked() {
  const i = state.cell;
  for (const panel of panels) {
    const g = panel.over.getContext("2d");
    g.setTransform(panel.scale, 0, 0, panel.scale, 0, 0);
    g.clearRect(0, 0, panel.size, panel.size);
    if (i < 0 || i >= panel.n || Number.isNaN(panel.px[i])) continue;
    const x = panel.px[i], y = panel.py[i], colouring = colours[state.colour], code = colouring.codes[panel.k][i];
    g.strokeStyle = css("--strong-rule"); g.lineWidth = 1;
    g.beginPath(); g.moveTo(x, 0); g.lineTo(x, panel.size); g.moveTo(0, y); g.lineTo(panel.size, y); g.stroke();
    g.beginPath(); g.arc(x, y, 9, 0, 2 * Math.PI); g.fillStyle = css("--sheet"); g.fill();
    g.strokeStyle = css("--text"); g.lineWidth = 1.6; g.stroke();
    if (code >= 0) { g.fillStyle = g.strokeStyle = colouring.colour(code); drawMark(g, colouring.shape(code), x, y, 4.6); }
  }
}

function describe(i) {
  const parts = [];
  const part = (label, ...value) => parts.push(h("span", { class: "part" }, h("span", { class: "label" }, ...label, " "), ...value));
  parts.push(h("span", { class: "part name" }, D.cell ? name(D.cell[i]) : "Cell " + whole(D.row[i])));
  for (const v of D.variables) part([name(v.name)], v.level[i] < 0 ? "missing" : name(v.names[v.level[i]]));
  for (const v of D.variables) part(["LISI of ", name(v.name)], v.lisi.map((l) => real(l.values[i])).join(" → "));
  if (D.moved) part(["moved"], real(D.moved[i]));
  return parts;
}

const HINT = (two ? "Point at a cell to find it in both panels; a click keeps it." : "Point at a cell; a click keeps it.") + " With the keyboard: Tab to a panel, then arrows.";
function pick(i, panel, event) {
  if (i !== state.cell) {
    state.cell = i;
    drawPicked();
    byId("cell").replaceChildren(...(i < 0 ? [HINT] : describe(i).flatMap((part) => [part, " "])));
  }
  const tip = byId("tip");
  tip.hidden = i < 0 || !event || event.pointerType === "touch";
  if (tip.hidden) return;
  tip.replaceChildren(...describe(i).map((part) => h("div", {}, part)));
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(8, Math.min(event.clientX + 16, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max(8, event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16) + "px";
}

function nearest(panel, event) {
  const box = panel.base.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  let best = -1, least = 14 * 14;
  for (let gx = (x >> 4) - 1; gx <= (x >> 4) + 1; gx++)
    for (let gy = (y >> 4) - 1; gy <= (y >> 4) + 1; gy++)
      for (const i of panel.grid.get(gx * 4096 + gy) || []) {
        const d = (panel.px[i] - x) ** 2 + (panel.py[i] - y) ** 2;
        if (d < least) { least = d; best = i; }
      }
  return best;
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
// The nearest cell that lies within 45 degrees of an arrow's direction.
function step(panel, event) {
  if (event.key === "Escape") { state.pinned = false; pick(-1); return; }
  const to = ARROWS[event.key];
  if (!to) return;
  event.preventDefault();
  const at = state.cell >= 0 && state.cell < panel.n ? state.cell : -1;
  const x = at < 0 ? panel.size / 2 : panel.px[at], y = at < 0 ? panel.size / 2 : panel.py[at];
  let best = -1, least = Infinity;
  for (let i = 0; i < panel.n; i++) {
    if (i === at || !panel.shown[i] || Number.isNaN(panel.px[i])) continue;
    const dx = panel.px[i] - x, dy = panel.py[i] - y, along = dx * to[0] + dy * to[1], across = Math.abs(dx * to[1]) + Math.abs(dy * to[0]);
    if (at >= 0 && (along <= 0 || across > along)) continue;
    if (dx * dx + dy * dy < least) { least = dx * dx + dy * dy; best = i; }
  }
  if (best >= 0) { state.pinned = true; pick(best); }
}

// ---- legend

const LEGEND_ROWS = 300;
function hiddenOf(c) {
  if (!state.hidden.has(c)) state.hidden.set(c, new Set());
  return state.hidden.get(c);
}

function toggle(code) {
  const hidden = hiddenOf(state.colour);
  if (!hidden.delete(code)) hidden.add(code);
  refreshLegend();
  draw();
}

// Only this one; again: all.
function isolate(code) {
  const hidden = hiddenOf(state.colour), n = colours[state.colour].names.length, alone = hidden.size === n - 1 && !hidden.has(code);
  hidden.clear();
  if (!alone) for (let k = 0; k < n; k++) if (k !== code) hidden.add(k);
  refreshLegend();
  draw();
}

function emphasise(code) {
  if (state.emphasis === code) return;
  state.emphasis = code;
  draw();
}

function refreshLegend() {
  const hidden = hiddenOf(state.colour);
  for (const key of byId("legend").querySelectorAll(".key")) key.setAttribute("aria-pressed", String(!hidden.has(+key.dataset.code)));
}

function legendRow(colouring, code) {
  const glyph = h("canvas", { width: "28", height: "28", "aria-hidden": "true" }), g = glyph.getContext("2d");
  g.fillStyle = g.strokeStyle = colouring.colour(code);
  drawMark(g, colouring.shape(code), 14, 14, 9);
  const key = h("button", { type: "button", class: "key", "data-code": code, "aria-pressed": "true", title: colouring.names[code], tabindex: "-1",
    onclick: (event) => (event.shiftKey ? isolate(code) : toggle(code)) },
    glyph, h("span", { class: "text" }, h("bdi", {}, colouring.names[code])), colouring.counts[code] !== null && h("span", { class: "count" }, whole(colouring.counts[code])));
  return h("li", { onpointerenter: () => emphasise(code), onpointerleave: () => emphasise(null) }, key,
    h("button", { type: "button", class: "only", tabindex: "-1", "aria-label": "Only " + colouring.names[code], onclick: () => isolate(code) }, "only"));
}

function buildLegend() {
  const colouring = colours[state.colour], n = colouring.names.length, wanted = byId("legend-search").value.trim().toLowerCase();
  byId("legend-title").replaceChildren(name(colouring.title));
  byId("legend-search").hidden = n <= 24;
  const codes = [];
  let found = 0;
  for (let code = 0; code < n; code++) {
    if (n > 24 && wanted && !colouring.names[code].toLowerCase().includes(wanted)) continue;
    if (found++ < LEGEND_ROWS) codes.push(code);
  }
  byId("legend").replaceChildren(...codes.map((code) => legendRow(colouring, code)));
  const first = byId("legend").querySelector(".key");
  if (first) first.tabIndex = 0;
  const kinds = D.same_shape * SHAPES;
  byId("legend-hint").textContent = [found > codes.length ? `${whole(codes.length)} of ${whole(found)} are listed; type above to find others.` : "",
    colouring.counts[0] !== null && n > kinds ? `${whole(n)} levels share ${kinds} looks: point at a cell for its level.` : "",
    "Click hides or shows, “only” isolates, pointing picks out."].filter(Boolean).join(" ");
  refreshLegend();
}

// One stop of the Tab key for the whole legend; arrows go along it.
byId("legend").addEventListener("keydown", (event) => {
  const keys = [...byId("legend").querySelectorAll(".key")], at = keys.indexOf(document.activeElement);
  const to = event.key === "ArrowDown" ? at + 1 : event.key === "ArrowUp" ? at - 1 : event.key === "Home" ? 0 : event.key === "End" ? keys.length - 1 : -1;
  if (at < 0 || to < 0 || to >= keys.length) return;
  event.preventDefault();
  keys[at].tabIndex = -1;
  keys[to].tabIndex = 0;
  keys[to].focus();
});

function pictures() {
  colours.forEach((c, i) => byId("colour").append(h("option", { value: i }, clean(c.title))));
  D.layouts.forEach((l, i) => byId("layout").append(h("option", { value: i }, `${clean(l.title)} (${plural(l.cells, "cell")})`)));
  byId("colour").addEventListener("change", (event) => { state.colour = +event.target.value; state.emphasis = null; byId("legend-search").value = ""; buildLegend(); buildPanels(); });
  byId("layout").addEventListener("change", (event) => { state.layout = +event.target.value; state.pinned = false; pick(-1); buildPanels(); });
  byId("legend-search").addEventListener("input", buildLegend);
  byId("reset").addEventListener("click", () => { state.hidden.clear(); refreshLegend(); draw(); });
  byId("cell").textContent = HINT;
  buildLegend();
  buildPanels();
  let waiting = 0;
  new ResizeObserver(() => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => { if (!printing) draw(); }); }).observe(byId("panels"));
  redraws.push(() => { buildLegend(); draw(); });
}
