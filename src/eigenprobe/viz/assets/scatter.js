// The map of an embedding: one cloud of points, coloured by a column, with what is found, marked or clicked raised above it.
start().then((data) => {
  const floats = (text) => Array.from(unpack(text, Float32Array));
  const place = (part) => part && { n: part.n, k: part.k, x: floats(part.coordinates), across: part.across, at: part.layout && floats(part.layout) };
  const main = place(data), fresh = place(data.new), { n, k } = main, ramp = unpack(data.sequential, Uint8Array);
  const colourings = data.colourings.map((c) => (c.classes ? { ...c, codes: unpack(c.codes, Uint16Array) } : { ...c, values: floats(c.values) }));
  const flat = document.createElement("canvas").getContext("webgl2") ? "scattergl" : "scatter";
  const state = { by: 0, found: null, wanted: "", only: -1, marked: null, picked: -1, neighbours: [], lasso: false, lassos: 0 };
  const row = (i) => (data.rows ? data.rows[i] : i), text = (i) => (data.texts ? data.texts[i] : `row ${row(i)}`);
  const plain = (words) => { const box = document.createElement("textarea"); box.innerHTML = words; return box.value; };
  const safe = (words) => String(words).replace(/&/g, "&amp;").replace(/</g, "&lt;");
  const now = () => colourings[state.by], kind = () => $("axes").value, solid = () => kind().endsWith("3");
  // A fixed shuffle: the last class must not hide the others.
  const order = Array.from({ length: n }, (_, i) => i), next = ((s) => () => (s = (s * 1664525 + 1013904223) >>> 0) / 2 ** 32)(7);
  for (let i = n - 1; i > 0; i--) { const j = Math.floor(next() * (i + 1)); [order[i], order[j]] = [order[j], order[i]]; }

  const options = [];
  if (main.at) options.push(["layout2", "map"], ...(main.across > 2 ? [["layout3", "3-D map"]] : []));
  options.push(["coordinates2", "coordinates"], ...(k > 2 ? [["coordinates3", "3-D coordinates"]] : []));
  for (const [value, words] of options) $("axes").add(new Option(words, value));
  if (main.across > 2) $("axes").value = "layout3";
  colourings.forEach((c, i) => $("by").add(new Option(c.name, String(i))));
  for (const id of ["across", "up"]) for (let j = 0; j < k; j++) $(id).add(new Option(String(j + 1), String(j)));
  $("up").value = String(Math.min(1, k - 1));

  // The chosen columns of a set of points, as lists of coordinates.
  function columns(part, rows) {
    const layout = kind().startsWith("layout"), from = layout ? part.at : part.x, width = layout ? part.across : part.k;
    const a = layout ? 0 : Number($("across").value), b = layout ? 1 : Number($("up").value), c = layout ? 2 : [0, 1, 2].find((j) => j !== a && j !== b);
    if (!from) return null;
    const take = (j) => rows.map((i) => from[i * width + j]);
    return { x: take(a), y: take(b), ...(solid() ? { z: take(c) } : {}) };
  }

  function tint(i) {
    const c = now();
    if (!c) return paint("--accent");
    if (c.classes) return c.colours[c.codes[i]];
    const at = 3 * Math.round(Math.min(1, Math.max(0, (c.values[i] - c.range[0]) / (c.range[1] - c.range[0]))) * (ramp.length / 3 - 1));
    return `rgb(${ramp[at]},${ramp[at + 1]},${ramp[at + 2]})`;
  }
  const label = (i) => { const c = now(); return !c ? "" : c.classes ? safe(c.classes[c.codes[i]]) : `${safe(c.name)} ${short(c.values[i])}`; };
  const size = Math.min(8, Math.max(3.2, 320 / Math.sqrt(n)));

  function layer(part, rows, marker, words, extra = {}) {
    const at = columns(part, rows);
    return at && { type: solid() ? "scatter3d" : flat, mode: "markers", ...at, customdata: rows, text: rows.map(words), hovertemplate: "%{text}<extra></extra>", selectedpoints: null, marker: { line: { width: 0 }, ...marker }, ...extra };
  }

  const raised = () => state.found || state.marked;
  function traces() {
    const up = raised(), words = (i) => (label(i) ? `<b>${label(i)}</b><br>` : "") + text(i), line = { width: 1.6, color: paint("--ink") }, small = solid() ? 0.6 : 1;
    const made = [layer(main, order, { size: size * small, color: order.map(tint), opacity: up ? 0.1 : 0.78 }, words)];
    if (up) { const rows = order.filter((i) => up.has(i)); made.push(layer(main, rows, { size: (size + 2.5) * small, color: rows.map(tint), opacity: 1, line }, words)); }
    if (fresh && $("new").checked) made.push(layer(fresh, Array.from({ length: fresh.n }, (_, i) => i), { size: (size + 1) * small, symbol: "diamond-open", color: paint("--ink"), line: { width: 1.2 } }, (i) => `new row ${i}`, { customdata: null }));
    if (state.picked >= 0) {
      const star = state.neighbours.flatMap((i) => [state.picked, i, null]), at = columns(main, star.map((i) => i ?? state.picked));
      for (const axis of Object.values(at)) star.forEach((i, p) => { if (i === null) axis[p] = null; });
      made.push({ type: solid() ? "scatter3d" : flat, mode: "lines", ...at, hoverinfo: "skip", line: { color: paint("--ink"), width: solid() ? 3 : 1.2 } });
      const rows = [state.picked, ...state.neighbours];
      made.push(layer(main, rows, { size: rows.map((i) => (i === state.picked ? size + 7 : size + 3) * small), color: rows.map(tint), line: { width: 1.6, color: paint("--ink") } }, words));
    }
    return made.filter(Boolean);
  }

  // Names of classes: large classes first, each near its middle where no other name is and few points of others lie. A name
  // that does not fit stands as its number of the list, or not at all until one zooms in.
  const FEW = 12, LINE = 22, LETTERS = 30, measure = document.createElement("canvas").getContext("2d");
  const median = (list) => list.slice().sort((a, b) => a - b)[Math.floor(list.length / 2)];
  const cut = (words) => (words.length > LETTERS ? words.slice(0, LETTERS - 1) + "…" : words);
  function members() { // rows by class, of those that are raised where something is searched
    const c = now(), found = c.classes.map(() => []);
    c.codes.forEach((code, i) => { if (!state.found || state.found.has(i)) found[code].push(i); });
    return found;
  }
  function spaceNames(c, groups) {
    const at = columns(main, order), place = new Map(order.map((i, p) => [i, p])), most = c.classes.length <= FEW ? FEW : 40;
    const largest = groups.map((rows, g) => [rows.length, g]).filter(([count]) => count).sort((a, b) => b[0] - a[0]).slice(0, most);
    return largest.map(([, g]) => {
      const spot = Object.fromEntries(Object.entries(at).map(([axis, list]) => [axis, median(groups[g].map((i) => list[place.get(i)]))]));
      return { ...spot, text: safe(cut(c.classes[g])), showarrow: false, font: { size: 12, color: paint("--ink") } };
    });
  }
  const CELL = 10;
  function planeNames(c, groups) {
    const { xaxis, yaxis } = $("scatter")._fullLayout, wide = xaxis._length, tall = yaxis._length, size = c.classes.length <= FEW ? 13 : 12;
    const rows = Array.from({ length: n }, (_, i) => i), at = columns(main, rows), px = at.x.map((v) => xaxis.l2p(v)), py = at.y.map((v) => yaxis.l2p(v));
    const inside = (i) => px[i] >= 0 && px[i] <= wide && py[i] >= 0 && py[i] <= tall, across = Math.ceil(wide / CELL) + 1, counts = new Map();
    const cell = (x, y) => Math.floor(y / CELL) * across + Math.floor(x / CELL);
    rows.forEach((i) => { if (inside(i)) counts.set(cell(px[i], py[i]), (counts.get(cell(px[i], py[i])) || 0) + 1); });
    measure.font = `${size}px system-ui, sans-serif`;
    const taken = [], shown = groups.map((all, g) => ({ g, all: all.filter(inside) })).filter(({ all }) => all.length).sort((a, b) => b.all.length - a.all.length);
    const put = ({ g, x, y, spread, lift }, words, reach) => {
      const w = measure.measureText(words).width + 12, h = LINE, tries = [];
      for (let dy = -reach; dy <= reach; dy++) for (const dx of [0, -0.5, 0.5, -1, 1]) {
        const left = x + dx * (w / 2 + spread) - w / 2, top = y - lift + dy * 5 - h / 2;
        if (left < 0 || top < 0 || left + w > wide || top + h > tall) continue;
        if (taken.some((t) => left < t.left + t.w && t.left < left + w && top < t.top + t.h && t.top < top + h)) continue;
        let covered = 0;
        for (let yy = top; yy < top + h; yy += CELL) for (let xx = left; xx < left + w; xx += CELL) covered += counts.get(cell(xx, yy)) || 0;
        tries.push({ left, top, w, h, cost: Math.hypot(left + w / 2 - x, top + h / 2 - (y - lift)) + Math.min(12, covered) });
      }
      const best = tries.sort((a, b) => a.cost - b.cost)[0];
      if (!best) return null;
      taken.push(best);
      return { x: xaxis.p2l(x), y: yaxis.p2l(y), xshift: best.left + best.w / 2 - x, yshift: y - best.top - h / 2, text: safe(words), class: g };
    };
    const style = { showarrow: false, borderpad: 0, bgcolor: paint("--plate"), font: { size, color: paint("--ink") }, captureevents: false };
    return shown.map(({ g, all }) => {
      const x = median(all.map((i) => px[i])), y = median(all.map((i) => py[i])), high = median(all.map((i) => Math.abs(py[i] - y))), spread = median(all.map((i) => Math.abs(px[i] - x)));
      const spot = { g, x, y, spread, lift: high < 8 ? 13 : 0 }; // a name would hide a tight cluster: above it
      const reach = c.classes.length <= FEW ? 80 : Math.max(8, Math.min(24, Math.round(high / 3)));
      return put(spot, cut(c.classes[g]), reach) || put(spot, String(g + 1), 6);
    }).filter(Boolean).map((name) => ({ ...style, ...name }));
  }
  function names() {
    const c = now(), chart = $("scatter"), many = 1000;
    const drawn = !c || !c.classes || c.classes.length < 2 || c.classes.length > many ? [] : solid() ? spaceNames(c, members()) : planeNames(c, members());
    state.numbered = drawn.some(({ text: words, class: g }) => c.classes.length > FEW && words === String(g + 1));
    return Plotly.relayout(chart, solid() ? { "scene.annotations": drawn } : { annotations: drawn.map(({ class: _, ...rest }) => rest) });
  }

  // The view on what was found, and back to the whole map.
  function zoom(rows) {
    if (solid()) return null;
    if (!rows || !rows.length) return Plotly.relayout("scatter", { "xaxis.autorange": true, "yaxis.autorange": true });
    const at = columns(main, rows), whole = columns(main, order), span = (list) => list.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
    const window = (list, all) => { const [a, b] = span(list), [low, high] = span(all), half = Math.max(0.62 * (b - a), 0.06 * (high - low)), middle = (a + b) / 2; return [middle - half, middle + half]; };
    return Plotly.relayout("scatter", { "xaxis.range": window(at.x, whole.x), "yaxis.range": window(at.y, whole.y) });
  }

  const resting = () => { const a = { zeroline: false, showticklabels: false, showgrid: false, showline: false, fixedrange: false }; return { xaxis: a, yaxis: a }; };
  function draw() {
    const bare = { visible: false };
    $("pair").hidden = !kind().startsWith("coordinates");
    $("lasso").disabled = solid();
    const scene = { xaxis: bare, yaxis: bare, zaxis: bare, aspectmode: "data" };
    const made = Plotly.react("scatter", traces(), chartLayout({
      ...resting(), margin: { l: 6, r: 6, t: 6, b: 6 }, dragmode: solid() ? "orbit" : state.lasso ? "lasso" : "pan", selections: [], selectionrevision: state.lassos, uirevision: kind() + $("across").value + $("up").value,
      ...(solid() ? { scene } : {}),
    }), { displayModeBar: false, responsive: true, scrollZoom: true, doubleClick: "reset" });
    const c = now();
    legend(c && c.values ? ramp : null, c && c.values && short(c.range[0]), c && c.name, c && c.values && short(c.range[1]));
    $("save").disabled = !raised(); $("save").textContent = raised() ? `Save ${raised().size} rows` : "Save rows";
    list();
    return made.then(names).then(list);
  }

  function entry(swatch, words, number, act, chosen) {
    const made = document.createElement("button");
    made.type = "button"; made.className = "entry"; made.setAttribute("aria-pressed", String(chosen));
    const dot = document.createElement("i"), name = document.createElement("span"), count = document.createElement("em");
    dot.style.background = swatch; name.textContent = words; count.textContent = number;
    made.append(dot, name, count); made.addEventListener("click", act);
    return made;
  }

  function list() {
    const c = now();
    $("classes-card").hidden = !c || !c.classes;
    if (c && c.classes) {
      const counts = members().map((rows) => rows.length), hit = (_, g) => !state.wanted || counts[g];
      $("classes-title").textContent = state.wanted ? `${counts.filter(Boolean).length} of ${c.classes.length} labels` : c.typical ? `${c.classes.length} groups found, and their most typical rows` : `${c.classes.length} labels`;
      const only = (g) => () => {
        state.only = state.only === g ? -1 : g; state.marked = null;
        state.found = state.only < 0 ? null : new Set(order.filter((i) => c.codes[i] === g)); draw();
      };
      const total = new Array(c.classes.length).fill(0);
      c.codes.forEach((code) => total[code]++);
      const made = c.classes.map((name, g) => {
        const words = c.classes.length > FEW ? `${g + 1}  ${name}` : name;
        const one = [entry(c.colours[g], words, String(state.wanted ? counts[g] : total[g]), only(g), state.only === g)];
        for (const i of c.typical ? c.typical[g] : []) { const below = entry("transparent", data.texts ? plain(text(i)) : `row ${row(i)}`, "", () => pick(i), false); below.classList.add("typical"); one.push(below); }
        return one;
      });
      $("classes").replaceChildren(...made.filter(hit).flat());
    }
    $("picked-card").hidden = state.picked < 0;
    if (state.picked < 0) return;
    $("picked-title").textContent = `nearest to row ${row(state.picked)} in ${k} coordinates`;
    const shown = [state.picked, ...state.neighbours];
    $("picked").replaceChildren(...shown.map((i, p) => entry(tint(i), [label(i) && plain(label(i)), data.texts ? plain(text(i)) : `row ${row(i)}`].filter(Boolean).join(" · "), p ? short(distance(i, state.picked)) : "", () => pick(i), !p)));
  }

  function distance(i, j) { let sum = 0; for (let c = 0; c < k; c++) sum += (main.x[i * k + c] - main.x[j * k + c]) ** 2; return Math.sqrt(sum); }
  function pick(i) {
    state.picked = i; state.neighbours = [];
    if (i >= 0) {
      const away = Float64Array.from({ length: n }, (_, j) => (j === i ? Infinity : distance(i, j)));
      state.neighbours = Array.from(away.keys()).sort((a, b) => away[a] - away[b]).slice(0, Math.min(10, n - 1));
    }
    draw();
  }

  function find(wanted) {
    state.wanted = wanted = wanted.trim().toLowerCase(); state.only = -1; state.marked = null;
    const hits = (i) => (label(i) && plain(label(i)).toLowerCase().includes(wanted)) || (data.texts && plain(text(i)).toLowerCase().includes(wanted)) || String(row(i)) === wanted;
    state.found = wanted ? new Set(order.filter(hits)) : null;
    const zoomed = state.found ? state.found.size : state.zoomed;
    state.zoomed = state.found ? state.found.size : 0;
    return draw().then(() => (zoomed ? zoom(state.found && [...state.found]) : null));
  }

  // A picture of the view: raster of a chosen width, or vectors.
  async function picture(format) {
    const chart = $("scatter"), width = Math.min(10000, Math.max(200, Number($("width").value) || 2400)), scale = format === "svg" ? 1 : width / chart.clientWidth;
    const drawn = format === "svg" ? chart.data.map((t) => (t.type === "scattergl" ? { ...t, type: "scatter" } : t)) : chart.data;
    const layout = { ...chart.layout, paper_bgcolor: paint("--card"), xaxis: { ...chart.layout.xaxis, range: chart._fullLayout.xaxis?.range }, yaxis: { ...chart.layout.yaxis, range: chart._fullLayout.yaxis?.range } };
    const address = await Plotly.toImage({ data: drawn, layout }, { format, width: chart.clientWidth, height: chart.clientHeight, scale });
    download(await (await fetch(address)).blob(), `${data.title.replace(/[^\w.-]+/g, "_")}.${format}`);
  }

  function save() {
    const quote = (words) => `"${String(words).replace(/"/g, '""')}"`, c = now();
    const head = ["row", ...(c ? [quote(c.name)] : []), ...(data.texts ? ["text"] : [])];
    const lines = [...raised()].sort((a, b) => a - b).map((i) => [row(i), ...(c ? [c.classes ? quote(c.classes[c.codes[i]]) : c.values[i]] : []), ...(data.texts ? [quote(plain(text(i)))] : [])].join(","));
    download(new Blob([[head.join(","), ...lines].join("\n") + "\n"], { type: "text/csv" }), `${data.title.replace(/[^\w.-]+/g, "_")}-rows.csv`);
  }

  $("by-label").hidden = !colourings.length; $("new-label").hidden = !fresh; $("spectrum-card").hidden = !data.eigenvalues;
  $("axes").parentElement.hidden = options.length < 2;
  for (const id of ["across", "up", "axes", "new"]) $(id).addEventListener("change", draw);
  $("by").addEventListener("change", () => { state.by = Number($("by").value); find(state.wanted); });
  let waiting = 0;
  $("find").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => find($("find").value), 120); });
  $("lasso").addEventListener("click", () => { state.lasso = !state.lasso; $("lasso").setAttribute("aria-pressed", String(state.lasso)); draw(); });
  $("save").addEventListener("click", save);
  for (const format of ["png", "svg"]) $(format).addEventListener("click", () => picture(format));
  const first = draw();
  $("scatter").on("plotly_relayout", (change) => { if (!solid() && Object.keys(change).some((key) => /axis|autosize|width/.test(key))) names(); });
  $("scatter").on("plotly_click", (e) => { const i = e.points[0].customdata; if (Number.isInteger(i)) pick(i === state.picked ? -1 : i); });
  $("scatter").on("plotly_selected", (e) => {
    if (!e || !(e.lassoPoints || e.range)) return; // clearing the outline below tells of itself
    state.marked = new Set(e.points.map((p) => p.customdata).filter(Number.isInteger)); state.found = null; state.only = -1; state.lasso = false; state.lassos++;
    $("lasso").setAttribute("aria-pressed", "false");
    draw();
  });
  $("scatter").on("plotly_doubleclick", () => { state.marked = null; draw(); });
  if (data.eigenvalues) spectrum("spectrum", [{ name: "", y: data.eigenvalues }]);
  themeListeners.push(() => { draw(); if (data.eigenvalues) spectrum("spectrum", [{ name: "", y: data.eigenvalues }]); });
  window.map = { state, pick, find, draw };
  first.then(() => { document.body.dataset.ready = "true"; });
});
