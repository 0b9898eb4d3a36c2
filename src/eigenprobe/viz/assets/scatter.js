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
    const up = raised(), words = (i) => (label(i) ? `<b>${label(i)}</b><br>` : "") + text(i), line = { width: 1, color: paint("--card") }, small = solid() ? 0.6 : 1;
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

  // Names at the centres while they are few or short, numbers of the list beside when they are many.
  const named = ({ classes }) => classes.length <= 12 || classes.every((name) => name.length <= 3);
  function centres() {
    const c = now();
    if (!c || !c.classes || c.classes.length < 2 || c.classes.length > 300) return [];
    const at = columns(main, Array.from({ length: n }, (_, i) => i)), few = named(c), out = [], taken = [], box = $("scatter"), span = (list) => list.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
    const [[left, right], [low, high]] = [span(at.x), span(at.y)], wide = (0.9 * box.clientWidth) / (right - left || 1), tall = (0.9 * box.clientHeight) / (high - low || 1);
    const free = ({ x, y }, letters, lift) => { // upwards by as many pixels as it takes not to cover a name that is there already
      const half = 4 * letters + 3, middle = x * wide;
      let up = lift;
      const hit = () => taken.find((t) => Math.abs(t.x - middle) < t.half + half && Math.abs(t.y - y * tall - up) < 14);
      for (let other = solid() ? null : hit(); other; other = hit()) up = other.y + 14.5 - y * tall;
      taken.push({ x: middle, y: y * tall + up, half });
      return up;
    };
    const middle = (list) => list.sort((a, b) => a - b)[Math.floor(list.length / 2)], members = c.classes.map(() => []);
    c.codes.forEach((code, i) => members[code].push(i));
    members.forEach((rows, g) => {
      if (!rows.length || (state.only >= 0 && g !== state.only)) return;
      const spot = Object.fromEntries(Object.entries(at).map(([axis, list]) => [axis, middle(rows.map((i) => list[i]))]));
      const tight = !solid() && middle(rows.map((i) => Math.abs(at.y[i] - spot.y))) * tall < 8; // a name would hide the points
      out.push({ ...spot, yshift: free(spot, few ? c.classes[g].length : 2, tight ? 12 : 0), text: few ? safe(c.classes[g]) : String(g + 1), showarrow: false, font: { size: c.classes.length <= 12 ? 13 : 11.5, color: paint("--ink") }, captureevents: false });
    });
    return out;
  }

  const resting = () => { const a = { zeroline: false, showticklabels: false, showgrid: false, showline: false, fixedrange: false }; return { xaxis: a, yaxis: a }; };
  function draw() {
    const bare = { visible: false }, spots = centres();
    $("pair").hidden = !kind().startsWith("coordinates");
    $("lasso").disabled = solid();
    const scene = { xaxis: bare, yaxis: bare, zaxis: bare, aspectmode: "data", annotations: spots };
    Plotly.react("scatter", traces(), chartLayout({
      ...resting(), margin: { l: 6, r: 6, t: 6, b: 6 }, dragmode: solid() ? "orbit" : state.lasso ? "lasso" : "pan", selections: [], selectionrevision: state.lassos, uirevision: kind() + $("across").value + $("up").value,
      ...(solid() ? { scene } : { annotations: spots }),
    }), { displayModeBar: false, responsive: true, scrollZoom: true, doubleClick: "reset" });
    const c = now();
    legend(c && c.values ? ramp : null, c && c.values && short(c.range[0]), c && c.name, c && c.values && short(c.range[1]));
    $("save").disabled = !raised(); $("save").textContent = raised() ? `Save ${raised().size} rows` : "Save rows";
    list();
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
      const counts = new Array(c.classes.length).fill(0), many = !named(c);
      c.codes.forEach((code) => counts[code]++);
      $("classes-title").textContent = `${c.classes.length} labels`;
      $("classes").replaceChildren(...c.classes.map((name, g) => entry(c.colours[g], many ? `${g + 1}  ${name}` : name, String(counts[g]), () => {
        state.only = state.only === g ? -1 : g; state.marked = null;
        state.found = state.only < 0 ? null : new Set(order.filter((i) => c.codes[i] === g)); draw();
      }, state.only === g)));
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
    draw();
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
  draw();
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
  document.body.dataset.ready = "true";
});
