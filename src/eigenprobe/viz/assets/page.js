"use strict";
// Shared by all pages: unpack the gzipped payloads, start plotly, follow the light or dark theme.
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
  const [payload, library] = await Promise.all([inflate("payload"), $("plotly").textContent.trim() ? inflate("plotly") : ""]);
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
  const axis = { gridcolor: paint("--line"), zeroline: false, linecolor: paint("--line"), automargin: true, fixedrange: true, exponentformat: "power" };
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

// The colour bar over a picture: three words under a ramp (a Uint8Array of rgb triples); none hides it.
function legend(ramp, low, middle, high) {
  $("bar").hidden = !ramp;
  if (!ramp) return;
  const pen = $("ramp").getContext("2d"), image = pen.createImageData(256, 1);
  for (let i = 0; i < 256; i++) { const at = 3 * Math.round((i / 255) * (ramp.length / 3 - 1)); image.data.set([ramp[at], ramp[at + 1], ramp[at + 2], 255], 4 * i); }
  pen.putImageData(image, 0, 0);
  $("low").textContent = low; $("middle").textContent = middle; $("high").textContent = high;
}

// Curves over 1, 2, 3, ...; the last trace is a dot that can be moved along the first.
const STROKES = ["--accent", "--second"];
function curves(id, series, hover, layout = {}) {
  const dot = { color: paint("--mark"), size: 10, line: { color: paint("--card"), width: 2 } };
  const made = series.map(({ name, y, error }, s) => ({
    x: y.map((_, i) => i + 1), y, name, mode: "lines+markers", line: { color: paint(STROKES[s]), width: 2, dash: s ? "dot" : "solid" },
    ...(error && { error_y: { array: error, color: paint(STROKES[s]), thickness: 1, width: 2 } }),
    marker: { size: 4.5, color: paint(STROKES[s]) }, hovertemplate: (name ? `${name}: ` : "") + hover + "<extra></extra>",
  }));
  made.push({ x: [], y: [], mode: "markers", marker: dot, hoverinfo: "skip", showlegend: false });
  const shown = { showlegend: series.length > 1, legend: { x: 0.02, y: 0.98, bgcolor: "rgba(0,0,0,0)" } };
  Plotly.react(id, made, chartLayout({ ...shown, ...layout }), CONFIG);
}
function spectrum(id, series) {
  curves(id, series, "λ<sub>%{x}</sub> = %{y:.4g}", { xaxis: { title: { text: "index", standoff: 4 } }, yaxis: { rangemode: "tozero" } });
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob); link.download = name; link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
