"use strict";
// Shared by both pages: unpack the gzipped payloads, start plotly, follow the light or dark theme.
const $ = (id) => document.getElementById(id);

async function inflate(id) {
  const packed = Uint8Array.from(atob($(id).textContent.trim()), (c) => c.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

function unpack(text, Type) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Type(bytes.buffer);
}

async function start() {
  const [payload, library] = await Promise.all([inflate("payload"), inflate("plotly")]);
  const script = document.createElement("script");
  script.textContent = library;
  document.head.append(script);
  return JSON.parse(payload);
}

const themeListeners = [];
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  themeListeners.forEach((listener) => listener());
}
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
$("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));

const paint = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const CONFIG = { displayModeBar: false, responsive: true };

function chartLayout(extra = {}) {
  const axis = { gridcolor: paint("--line"), zeroline: false, linecolor: paint("--line"), automargin: true, fixedrange: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    hoverlabel: { bgcolor: paint("--card"), bordercolor: paint("--line"), font: { color: paint("--ink"), size: 12.5 } },
    font: { color: paint("--faint"), size: 11.5, family: "system-ui, sans-serif" }, margin: { l: 44, r: 16, t: 10, b: 34 },
    ...extra, xaxis: { ...axis, showgrid: false, ...extra.xaxis }, yaxis: { ...axis, ...extra.yaxis },
  };
}

// Three significant figures, without an exponent where that stays short.
function short(x) {
  if (!Number.isFinite(x)) return "–";
  if (x === 0) return "0";
  return Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(2) : String(Number(x.toPrecision(3)));
}

// Ticks at 1, 2 and 5 times the powers of ten while those are few, else at the powers alone.
function logTicks(values) {
  const low = Math.floor(Math.log10(Math.min(...values))), high = Math.ceil(Math.log10(Math.max(...values)));
  const steps = high - low <= 2 ? [1, 2, 5] : [1], tickvals = [];
  for (let power = low; power <= high; power++) for (const step of steps) tickvals.push(step * 10 ** power);
  return { tickvals, ticktext: tickvals.map((x) => short(Number(x.toPrecision(1)))) };
}
