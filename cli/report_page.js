// SPDX-License-Identifier: BSD-3-Clause
// Data, small helpers, theme, heading and summary. Texts from the file become text nodes only, never HTML.

const D = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const two = D.bases.length === 2;
const BATCHES = D.variables.filter((v) => v.batch), TYPES = D.variables.filter((v) => !v.batch);

// Control characters get visible stand-ins; those that turn or hide text are named.
function clean(text) {
  if (text === "") return "\u27e8empty\u27e9";
  return String(text).replace(/[\u0000-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0))).replace(/\u007f/g, "\u2421")
    .replace(/[\u0080-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) => "\u27e8U+" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "\u27e9");
}

function h(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") e.className = value;
    else if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value === true) e.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) e.setAttribute(name, value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

function s(tag, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  e.append(...children.flat());
  return e;
}

// A name from the file, which may run from right to left.
const name = (text) => h("bdi", {}, clean(text));

const whole = (n) => Number(n).toLocaleString("en").replace(/,/g, "\u202f");
function real(x, digits = 3) {
  if (x === null || x === undefined || !Number.isFinite(+x)) return "–";
  x = +x;
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) return x.toExponential(digits - 1).replace("-", "\u2212").replace("e+", "e");
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return x.toFixed(Math.min(places, 8)).replace("-", "\u2212");
}
const plural = (n, word) => whole(n) + " " + word + (n === 1 ? "" : "s");
const lines = (key) => (D.run[key] === undefined ? null : D.run[key].split("\n"));
const numbers = (key) => { const l = lines(key); return l && l.map((t) => (t === "" || !Number.isFinite(+t) ? null : +t)); };

function quantile(sorted, q) {
  if (!sorted.length) return null;
  const at = q * (sorted.length - 1), low = Math.floor(at);
  return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}
const sortedValues = (list) => Float64Array.from(list.filter((x) => x !== null)).sort();

let trace = null;
if (D.trace !== null) {
  try { trace = JSON.parse(D.trace); } catch { trace = null; }
  if (typeof trace !== "object") trace = null;
}

// ---- theme

const systemDark = matchMedia("(prefers-color-scheme: dark)");
const themes = ["auto", "light", "dark"];
let theme = "auto", printing = false;
const redraws = [];
function applyTheme() {
  const dark = !printing && (theme === "dark" || (theme === "auto" && systemDark.matches));
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = "Theme: " + theme;
  redraws.forEach((redraw) => redraw());
}
byId("theme").addEventListener("click", () => { theme = themes[(themes.indexOf(theme) + 1) % 3]; applyTheme(); });
systemDark.addEventListener("change", applyTheme);
addEventListener("beforeprint", () => { printing = true; applyTheme(); });
addEventListener("afterprint", () => { printing = false; applyTheme(); });
const isDark = () => document.documentElement.dataset.theme === "dark";
const css = (property) => getComputedStyle(document.documentElement).getPropertyValue(property).trim();

// ---- heading and summary

function heading() {
  byId("title").append(name(D.title));
  const lead = byId("lead");
  lead.append(plural(D.cells, "cell") + (D.sampled < D.cells ? `, of which ${whole(D.sampled)} are sampled here` : ""));
  D.variables.forEach((v) => lead.append(" · ", name(v.name), ": " + plural(v.levels, "level")));
  lead.append(h("br"));
  if (two) lead.append("Before: ", name(D.bases[0].key), ". After: ", name(D.bases[1].key), ".");
  else lead.append("Shown: ", name(D.bases[0].key), ".");
  byId("pictures-title").textContent = two ? "Before and after" : "The cells";
  byId("foot").append(`Written by unisono ${D.version}. Sample of seed ${D.seed}; LISI at perplexity ${D.perplexity}. The same command on the same file writes the same page.`);
}

function tile(label, value, what) {
  byId("summary").append(h("div", { class: "tile" }, h("div", { class: "name" }, label), h("div", { class: "value" }, value), h("p", { class: "what" }, what)));
}

function fromTo(list, digits) {
  if (!two) return real(list[0], digits);
  return [h("span", { class: "was" }, real(list[0], digits)), h("span", { class: "arrow", "aria-label": "to" }, "→"), real(list[1], digits)];
}

function summary() {
  for (const v of BATCHES.slice(0, 2))
    tile(["LISI of ", name(v.name)], fromTo(v.lisi.map((l) => l.mean)), `Levels that an average cell has around it, out of ${whole(v.levels)}. More is better mixed.`);
  for (const v of TYPES.slice(0, 2))
    tile(["LISI of ", name(v.name)], fromTo(v.lisi.map((l) => l.mean)), "Types that an average cell has around it. 1 is apart from all others; a rise may be over-correction.");
  if (D.moved) {
    const all = sortedValues(D.moved);
    tile("Moved, median cell", real(quantile(all, 0.5)), `99 % of the sampled cells moved less than ${real(quantile(all, 0.99))}, in the units of the embedding.`);
  }
  const rounds = D.run.n_rounds;
  if (rounds !== undefined && two) tile("Stopped after", plural(+rounds, "round"), clean(D.run.reason ?? ""));
}

function findings() {
  const found = [...new Set([...(lines("diagnostics/findings") || []), ...(D.diagnosis ? D.diagnosis.findings : []), ...(lines("warnings") || [])])].filter(Boolean);
  if (!two || !found.length) return;
  byId("findings").hidden = false;
  byId("findings-list").append(...found.slice(0, 60).map((text) => h("li", {}, clean(text))));
}
