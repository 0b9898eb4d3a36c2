// The map of an embedding: one cloud of points, coloured by a column, with what is found, marked or clicked raised above it.
start().then(async (data) => {
  const floats = (text) => Array.from(unpack(text, Float32Array));
  const place = (part) => part && { n: part.n, k: part.k, x: floats(part.coordinates), across: part.across, at: part.layout && floats(part.layout) };
  const main = place(data), fresh = place(data.new), { n, k } = main, ramp = unpack(data.sequential, Uint8Array);
  const colourings = data.colourings.map((c) => (c.classes ? { ...c, codes: unpack(c.codes, Uint16Array) } : { ...c, values: floats(c.values) }));
  const webgl = Boolean(document.createElement("canvas").getContext("webgl2"));
  const state = { by: 0, found: null, wanted: "", filters: [], only: -1, marked: null, picked: -1, neighbours: [], lasso: false, lassos: 0, printing: false };
  const row = (i) => (data.rows ? data.rows[i] : i), text = (i) => (data.texts ? data.texts[i] : `row ${row(i)}`), images = data.images, sheet = new Image();
  if (images) { sheet.src = `data:image/jpeg;base64,${images.sheet}`; await sheet.decode(); }
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
  const label = (i) => { const c = now(); return !c ? "" : c.classes ? c.classes[c.codes[i]] : `${c.name} ${short(c.values[i])}`; };
  const size = Math.min(8, Math.max(3.2, 320 / Math.sqrt(n)));

  function layer(part, rows, marker, words, extra = {}) {
    const at = columns(part, rows);
    return at && { type: solid() ? "scatter3d" : flat(), mode: "markers", ...at, customdata: rows, text: rows.map(words), hovertemplate: "%{text}<extra></extra>", selectedpoints: null, marker: { line: { width: 0 }, ...marker }, ...extra };
  }

  const flat = () => (webgl && !state.printing ? "scattergl" : "scatter"); // a printer gets no pixels of WebGL
  const raised = () => state.found || state.marked;
  function traces() {
    const up = raised(), words = (i) => (label(i) ? `<b>${safe(label(i))}</b><br>` : "") + safe(text(i)), line = { width: 1.6, color: paint("--ink") }, small = solid() ? 0.6 : 1;
    const made = [layer(main, order, { size: size * small, color: order.map(tint), opacity: up ? 0.1 : 0.78 }, words)];
    if (up) { const rows = order.filter((i) => up.has(i)); made.push(layer(main, rows, { size: (size + 2.5) * small, color: rows.map(tint), opacity: 1, line }, words)); }
    if (fresh && $("new").checked) made.push(layer(fresh, Array.from({ length: fresh.n }, (_, i) => i), { size: (size + 1) * small, symbol: "diamond-open", color: paint("--ink"), line: { width: 1.2 } }, (i) => `new row ${i}`, { customdata: null }));
    if (state.picked >= 0) {
      const star = state.neighbours.flatMap((i) => [state.picked, i, null]), at = columns(main, star.map((i) => i ?? state.picked));
      for (const axis of Object.values(at)) star.forEach((i, p) => { if (i === null) axis[p] = null; });
      made.push({ type: solid() ? "scatter3d" : flat(), mode: "lines", ...at, hoverinfo: "skip", line: { color: paint("--ink"), width: solid() ? 3 : 1.2 } });
      const rows = [state.picked, ...state.neighbours];
      made.push(layer(main, rows, { size: rows.map((i) => (i === state.picked ? size + 7 : size + 3) * small), color: rows.map(tint), line: { width: 1.6, color: paint("--ink") } }, words));
    }
    return made.filter(Boolean);
  }

  let waiting = 0;
  const FEW = 12, MOST = 150, LETTERS = 44, CELL = 8, measure = document.createElement("canvas").getContext("2d");
  const median = (list) => list.slice().sort((a, b) => a - b)[Math.floor(list.length / 2)];
  const cut = (words) => (words.length > LETTERS ? words.slice(0, LETTERS - 1) + "…" : words);
  // A long name on two lines, broken at the space or underscore that is nearest to its middle.
  function lines(words) {
    const short = cut(words), spaces = [...short.matchAll(/[ _]/g)].map((m) => m.index), far = (i) => Math.abs(i - short.length / 2);
    const at = short.length > 20 && spaces.sort((a, b) => far(a) - far(b))[0];
    return at ? [short.slice(0, at + (short[at] === "_")), short.slice(at + 1)] : [short];
  }
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
  // Does the segment from p to q meet the box? (Liang and Barsky)
  function meets(p, q, box) {
    let low = 0, high = 1;
    for (const [at, step, a, b] of [[p.x, q.x - p.x, box.left, box.left + box.w], [p.y, q.y - p.y, box.top, box.top + box.h]]) {
      if (!step) { if (at < a || at > b) return false; continue; }
      const s = (a - at) / step, u = (b - at) / step;
      low = Math.max(low, Math.min(s, u)); high = Math.min(high, Math.max(s, u));
    }
    return low <= high;
  }
  // Names of classes, each with a line to it. The largest first: near the class where no other name is, no point lies and no
  // line is crossed. Of many classes the others stand in a column at the left or right edge, in the order of their heights.
  // So does a name near its class that a line from there would cross. A name that has no room is not shown until one zooms in.
  const MANY = 24, ANGLES = Array.from({ length: 16 }, (_, i) => [Math.cos((i * Math.PI) / 8), Math.sin((i * Math.PI) / 8)]), RADII = [10, 18, 28, 40, 54, 70, 90, 115, 145, 180, 225, 280];
  const edge = (wide) => { const c = now(); return c && c.classes && c.classes.length > MANY ? Math.min(220, 0.27 * wide) : 0; };
  function planeNames(c, groups) {
    const { xaxis, yaxis } = $("scatter")._fullLayout, wide = xaxis._length, tall = yaxis._length, many = edge(wide), size = c.classes.length <= FEW ? 13 : 11.5, row = size + 4;
    const rows = Array.from({ length: n }, (_, i) => i), at = columns(main, rows), px = at.x.map((v) => xaxis.l2p(v)), py = at.y.map((v) => yaxis.l2p(v));
    const inside = (i) => px[i] >= 0 && px[i] <= wide && py[i] >= 0 && py[i] <= tall, across = Math.ceil(wide / CELL) + 1, counts = new Uint32Array(across * (Math.ceil(tall / CELL) + 1));
    rows.forEach((i) => { if (inside(i)) counts[Math.floor(py[i] / CELL) * across + Math.floor(px[i] / CELL)]++; });
    measure.font = `600 ${size}px system-ui, sans-serif`;
    const width = (words) => Math.max(...words.map((line) => measure.measureText(line).width)) + 8;
    const onto = ({ left, top, w, h }, { x, y }) => ({ x: Math.min(Math.max(x, left), left + w), y: Math.min(Math.max(y, top), top + h) });
    const taken = [];
    function cost(box, spot, r) { // infinite where it cannot be
      if (box.left < many || box.top < 0 || box.left + box.w > wide - many || box.top + box.h > tall) return Infinity;
      let sum = r, covered = 0;
      for (const other of taken) {
        if (box.left < other.box.left + other.box.w && other.box.left < box.left + box.w && box.top < other.box.top + other.box.h && other.box.top < box.top + box.h) return Infinity;
        if (meets(spot, onto(box, spot), other.box) || meets(other.spot, onto(other.box, other.spot), box)) sum += many ? Infinity : 120;
      }
      for (let y = Math.floor(box.top / CELL); y <= (box.top + box.h) / CELL; y++) for (let x = Math.floor(box.left / CELL); x <= (box.left + box.w) / CELL; x++) covered += counts[y * across + x] || 0;
      return sum + (many && covered > 1 ? Infinity : Math.min(200, 8 * covered));
    }
    const shown = groups.map((all, g) => ({ g, all: all.filter(inside) })).filter(({ all }) => all.length).sort((a, b) => b.all.length - a.all.length).slice(0, MOST), left = [], right = [];
    for (const { g, all } of shown) {
      const x = median(all.map((i) => px[i])), y = median(all.map((i) => py[i]));
      const nearest = all.reduce((best, i) => (Math.hypot(px[i] - x, py[i] - y) < Math.hypot(px[best] - x, py[best] - y) ? i : best), all[0]), spot = { x: px[nearest], y: py[nearest] };
      const words = lines(c.classes[g]), w = width(words), h = words.length * row + 2;
      let best = { cost: Infinity };
      for (const r of RADII) {
        if (r > Math.min(best.cost, many ? 60 : Infinity)) break;
        for (const [cos, sin] of ANGLES) { const box = { left: spot.x + cos * (r + w / 2) - w / 2, top: spot.y + sin * (r + h / 2) - h / 2, w, h }, found = cost(box, spot, r); if (found < best.cost) best = { cost: found, box }; }
      }
      if (best.box) taken.push({ g, box: best.box, spot, words });
      else if (many) (spot.x < wide / 2 ? left : right).push({ g, spot });
    }
    const room = Math.floor(tall / row); // of a column: the other one takes what does not fit
    function beside() {
      const sides = [left, right].map((list) => list.slice().sort((a, b) => Math.abs(b.spot.x - wide / 2) - Math.abs(a.spot.x - wide / 2)));
      for (const [from, to] of [sides, sides.slice().reverse()]) { while (from.length > room && to.length < room) to.push(from.pop()); from.splice(room); }
      return sides.flatMap((rest, side) => {
        rest.sort((a, b) => a.spot.y - b.spot.y);
        const tops = rest.map(({ spot }) => spot.y - row / 2);
        for (let i = 0; i < tops.length; i++) tops[i] = Math.max(tops[i], i ? tops[i - 1] + row : 0);
        for (let i = tops.length - 1; i >= 0; i--) tops[i] = Math.min(tops[i], i < tops.length - 1 ? tops[i + 1] - row : tall - row);
        const names = rest.map(({ g }) => {
          const whole = c.classes[g];
          let name = whole; // its middle goes first: names often differ at their ends
          for (let kept = whole.length - 1; width([name]) > many && kept > 1; kept--) name = `${whole.slice(0, Math.ceil(kept / 2)).trimEnd()}…${whole.slice(whole.length - Math.floor(kept / 2)).trimStart()}`;
          return name;
        }), most = Math.max(...names.map((name) => width([name]))); // where all lines of a column begin
        return rest.map(({ g, spot }, i) => {
          const w = width([names[i]]);
          return { g, spot, words: [names[i]], anchor: side ? "left" : "right", box: { left: side ? wide - most : most - w, top: tops[i], w, h: row } };
        });
      });
    }
    let columned = beside();
    for (;;) {
      const crossed = taken.filter(({ box }) => columned.some((other) => meets(other.spot, onto(other.box, other.spot), box)));
      if (!crossed.length || left.length + right.length + crossed.length > 2 * room) break;
      for (const each of crossed) { taken.splice(taken.indexOf(each), 1); (each.spot.x < wide / 2 ? left : right).push(each); }
      columned = beside();
    }
    taken.push(...columned);
    const tail = { left: 0, center: 0.5, right: 1 }; // where the line leaves the box
    return taken.map(({ g, box, spot, words, anchor = "center" }) => ({
      x: xaxis.p2l(spot.x), y: yaxis.p2l(spot.y), xanchor: anchor, ax: box.left + tail[anchor] * box.w - spot.x, ay: box.top + box.h / 2 - spot.y, text: words.map(safe).join("<br>"), class: g,
      showarrow: true, arrowhead: 0, arrowwidth: 1, arrowcolor: c.colours[g], standoff: 2, borderpad: 0, font: { size, color: paint("--ink") }, captureevents: false,
    }));
  }
  function names() {
    const c = now(), drawn = !c || !c.classes || c.classes.length < 2 ? [] : solid() ? spaceNames(c, members()) : planeNames(c, members());
    tiles();
    return Plotly.relayout("scatter", solid() ? { "scene.annotations": drawn } : { annotations: drawn.map(({ class: _, ...rest }) => rest) });
  }

  // Pictures of rows are tiles of one sheet; a few rows in view are drawn as their pictures.
  const drawTile = (pen, i, x, y, size) => pen.drawImage(sheet, (i % images.across) * images.side, Math.floor(i / images.across) * images.side, images.side, images.side, x, y, size, size);
  function thumbnail(i, size) {
    const made = document.createElement("canvas");
    made.className = "thumbnail"; made.width = made.height = 2 * size; made.style.width = made.style.height = `${size}px`;
    drawTile(made.getContext("2d"), i, 0, 0, 2 * size);
    return made;
  }
  const PICTURES = 250, TILE = 34;
  function tiles() {
    const box = $("tiles"), pen = box.getContext("2d"), ratio = devicePixelRatio || 1;
    box.width = $("scatter").clientWidth * ratio; box.height = $("scatter").clientHeight * ratio; state.tiles = 0;
    if (!images || solid()) return;
    const { xaxis: x, yaxis: y } = $("scatter")._fullLayout, at = columns(main, order), seen = [];
    for (let p = 0; p < n && seen.length <= PICTURES; p++) { const left = x.l2p(at.x[p]), top = y.l2p(at.y[p]); if (left >= 0 && left <= x._length && top >= 0 && top <= y._length) seen.push([order[p], left + x._offset, top + y._offset]); }
    if (seen.length > PICTURES) return;
    pen.scale(ratio, ratio); pen.lineWidth = 2; state.tiles = seen.length;
    for (const [i, left, top] of seen) { pen.globalAlpha = raised() && !raised().has(i) ? 0.15 : 1; drawTile(pen, i, left - TILE / 2, top - TILE / 2, TILE); pen.strokeStyle = tint(i); pen.strokeRect(left - TILE / 2, top - TILE / 2, TILE, TILE); }
  }

  const span = (list) => list.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
  // The whole map, with room for names beside it.
  function home() {
    const all = columns(main, order), placed = fresh && $("new").checked && columns(fresh, Array.from({ length: fresh.n }, (_, i) => i)), wide = $("scatter").clientWidth || 800, beside = edge(wide) / wide;
    return [["x", 0.05 + beside / (1 - 2 * beside)], ["y", 0.05]].map(([axis, share]) => { const [a, b] = span(placed ? all[axis].concat(placed[axis]) : all[axis]), pad = share * (b - a) || 1; return [a - pad, b + pad]; });
  }

  // The view on what was found, and back to the whole map.
  function zoom(rows) {
    if (solid()) return null;
    if (!rows || !rows.length || rows.length > n / 2) { const [x, y] = home(); return Plotly.relayout("scatter", { "xaxis.range": x, "yaxis.range": y }); }
    const at = columns(main, rows), whole = columns(main, order);
    const window = (list, all) => { const [a, b] = span(list), [low, high] = span(all), half = Math.max(0.62 * (b - a), 0.06 * (high - low)), middle = (a + b) / 2; return [middle - half, middle + half]; };
    return Plotly.relayout("scatter", { "xaxis.range": window(at.x, whole.x), "yaxis.range": window(at.y, whole.y) });
  }

  function resting() {
    const a = { zeroline: false, showticklabels: false, showgrid: false, showline: false, fixedrange: false }, [x, y] = solid() ? [] : home();
    return { xaxis: { ...a, range: x }, yaxis: { ...a, range: y } };
  }
  function draw() {
    const bare = { visible: false };
    $("pair").hidden = !kind().startsWith("coordinates");
    $("lasso").disabled = solid();
    const scene = { xaxis: bare, yaxis: bare, zaxis: bare, aspectmode: "data" };
    const made = Plotly.react("scatter", traces(), chartLayout({
      ...resting(), margin: { l: 6, r: 6, t: 6, b: 6 }, dragmode: solid() ? "orbit" : state.lasso ? "lasso" : "pan", selections: [], selectionrevision: state.lassos, uirevision: kind() + $("across").value + $("up").value + state.by + state.printing, ...(state.printing ? { width: 680, height: 620 } : { autosize: true }),
      ...(solid() ? { scene } : {}),
    }), { displayModeBar: false, responsive: true, scrollZoom: true, doubleClick: "reset" });
    const c = now();
    legend(c && c.values ? ramp : null, c && c.values && short(c.range[0]), c && c.name, c && c.values && short(c.range[1]));
    $("save").disabled = !raised(); $("save").textContent = raised() ? `Save ${raised().size} rows` : "Save rows";
    list();
    return made.then(names).then(list);
  }

  function entry(swatch, words, number, act, chosen, of = -1) {
    const made = document.createElement("button");
    made.type = "button"; made.className = "entry"; made.setAttribute("aria-pressed", String(chosen));
    const dot = document.createElement("i"), name = document.createElement("span"), count = document.createElement("em");
    dot.style.background = swatch; name.textContent = words; count.textContent = number;
    made.append(...(of >= 0 && images ? [thumbnail(of, 26)] : []), dot, name, count); made.addEventListener("click", act);
    return made;
  }

  // The table: the rows that are raised, or all, as far as they are shown; a filter per column narrows the map too.
  const fields = [{ name: "row", get: row }, ...colourings.map((c) => ({ name: c.name, get: (i) => (c.classes ? c.classes[c.codes[i]] : c.values[i]) })), ...(data.texts ? [{ name: "text", get: text }] : [])];
  const narrowed = () => Boolean(state.wanted) || state.filters.some(Boolean), ROWS = 100;
  // What a filter accepts: words that are inside, or numbers, as in > 2, <= 2 and 1..2.
  function accepts(wanted) {
    const [, low, high] = wanted.match(/^(-?[\d.]+)\.\.(-?[\d.]+)$/) || [], [, sign, than] = wanted.match(/^([<>]=?|=)\s*(-?[\d.e+-]+)$/i) || [];
    if (low !== undefined) return (v) => v >= Number(low) && v <= Number(high);
    if (sign) return (v) => (sign.includes("=") && Number(v) === Number(than)) || (sign[0] === ">" && v > Number(than)) || (sign[0] === "<" && v < Number(than));
    return (v) => String(v).toLowerCase().includes(wanted.toLowerCase());
  }
  function cell(kind, ...inside) { const made = document.createElement(kind); made.append(...inside); return made; }
  function table() {
    const rows = raised() ? [...raised()].sort((a, b) => a - b) : Array.from({ length: Math.min(n, ROWS) }, (_, i) => i), count = raised() ? rows.length : n;
    $("table-title").textContent = `${count} rows${count > ROWS ? `, the first ${ROWS} shown` : ""}`;
    $("rows").replaceChildren(...rows.slice(0, ROWS).map((i) => {
      const made = cell("tr", ...fields.map(({ get }, j) => { const value = get(i); return cell("td", ...(images && !j ? [thumbnail(i, 30)] : []), typeof value === "number" && j ? short(value) : String(value)); }));
      made.addEventListener("click", () => pick(i));
      return made;
    }));
  }
  $("heads").append(...fields.map(({ name }, j) => {
    const box = document.createElement("input");
    box.type = "search"; box.placeholder = "filter"; box.title = "words, or numbers as in > 2 and 1..2"; box.setAttribute("aria-label", `Filter ${name}`);
    box.addEventListener("input", () => { state.filters[j] = box.value.trim(); clearTimeout(waiting); waiting = setTimeout(() => find($("find").value), 120); });
    return cell("th", name, box);
  }));

  function list() {
    const c = now();
    table();
    $("classes-card").hidden = !c || !c.classes;
    if (c && c.classes) {
      const counts = members().map((rows) => rows.length), hit = (_, g) => !narrowed() || counts[g];
      $("classes-title").textContent = narrowed() ? `${counts.filter(Boolean).length} of ${c.classes.length} labels` : c.typical ? `${c.classes.length} groups found, and their most typical rows` : `${c.classes.length} labels`;
      const only = (g) => () => {
        state.only = state.only === g ? -1 : g; state.marked = null;
        state.found = state.only < 0 ? null : new Set(order.filter((i) => c.codes[i] === g)); draw();
      };
      const total = new Array(c.classes.length).fill(0);
      c.codes.forEach((code) => total[code]++);
      const made = c.classes.map((name, g) => {
        const one = [entry(c.colours[g], name, String(narrowed() ? counts[g] : total[g]), only(g), state.only === g)];
        for (const i of c.typical ? c.typical[g] : []) { const below = entry("transparent", text(i), "", () => pick(i), false, i); below.classList.add("typical"); one.push(below); }
        return one;
      });
      $("classes").replaceChildren(...made.filter(hit).flat());
    }
    $("picked-card").hidden = state.picked < 0;
    if (state.picked < 0) return;
    $("picked-title").textContent = `nearest to row ${row(state.picked)} in ${k} coordinates`;
    const shown = [state.picked, ...state.neighbours];
    $("picked").replaceChildren(...shown.map((i, p) => entry(tint(i), [label(i), text(i)].filter(Boolean).join(" · "), p ? short(distance(i, state.picked)) : "", () => pick(i), !p, i)));
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
    const tests = fields.map(({ get }, j) => state.filters[j] && { get, fits: accepts(state.filters[j]) }).filter(Boolean);
    const hits = (i) => label(i).toLowerCase().includes(wanted) || (data.texts && text(i).toLowerCase().includes(wanted)) || String(row(i)) === wanted;
    state.found = narrowed() ? new Set(order.filter((i) => (!wanted || hits(i)) && tests.every(({ get, fits }) => fits(get(i))))) : null;
    const zoomed = state.found ? state.found.size : state.zoomed;
    state.zoomed = state.found ? state.found.size : 0;
    return draw().then(() => (zoomed ? zoom(state.found && [...state.found]) : null));
  }

  // The legend of a picture as traces without points: classes by name, numbers as a colour bar.
  function legendTraces() {
    const c = now(), dot = { type: "scatter", x: [null], y: [null], mode: "markers", showlegend: true };
    if (!c) return [];
    if (c.classes) return c.classes.slice(0, 60).map((name, g) => ({ ...dot, name: safe(cut(name)), marker: { color: c.colours[g], size: 9 } }));
    const scale = Array.from({ length: 17 }, (_, i) => { const at = 3 * Math.round((i / 16) * (ramp.length / 3 - 1)); return [i / 16, `rgb(${ramp[at]},${ramp[at + 1]},${ramp[at + 2]})`]; });
    return [{ ...dot, showlegend: false, marker: { color: [c.range[0]], cmin: c.range[0], cmax: c.range[1], colorscale: scale, showscale: true, colorbar: { title: { text: safe(c.name) }, len: 0.6, thickness: 14, outlinewidth: 0 } } }];
  }
  // A picture of the view with its legend, beside it or, of many classes, below: raster of a chosen width, or vectors.
  async function picture(format) {
    const chart = $("scatter"), full = chart._fullLayout, count = Math.min(60, now()?.classes?.length || 0), below = count > 25;
    const one = count ? 60 + 7 * Math.min(LETTERS, Math.max(...now().classes.map((name) => name.length))) : now() ? 110 : 0, total = chart.clientWidth + (below ? 0 : one);
    const under = below ? 20 * Math.ceil(count / Math.max(1, Math.floor(total / one))) + 20 : 0, height = chart.clientHeight + under;
    const width = Math.min(10000, Math.max(200, Number($("width").value) || 2400)), font = { size: 12, color: paint("--ink") };
    const layout = {
      ...chart.layout, paper_bgcolor: paint("--card"), showlegend: true, margin: { l: 6, r: total - chart.clientWidth + 6, t: 6, b: under + 6 }, xaxis: { ...chart.layout.xaxis, range: full.xaxis?.range }, yaxis: { ...chart.layout.yaxis, range: full.yaxis?.range },
      legend: below ? { orientation: "h", x: 0, y: 0, yanchor: "top", entrywidth: one - 45, font } : { x: 1.01, y: 1, font },
    };
    const drawn = chart.data.map((t) => ({ ...t, type: t.type === "scattergl" && format === "svg" ? "scatter" : t.type, showlegend: false }));
    const address = await Plotly.toImage({ data: [...drawn, ...legendTraces()], layout }, { format, width: total, height, scale: format === "svg" ? 1 : width / total });
    download(await (await fetch(address)).blob(), `${data.title.replace(/[^\w.-]+/g, "_")}.${format}`);
  }

  function save() {
    const quote = (words) => `"${String(words).replace(/"/g, '""')}"`, c = now();
    const head = ["row", ...(c ? [quote(c.name)] : []), ...(data.texts ? ["text"] : [])];
    const lines = [...raised()].sort((a, b) => a - b).map((i) => [row(i), ...(c ? [c.classes ? quote(c.classes[c.codes[i]]) : c.values[i]] : []), ...(data.texts ? [quote(text(i))] : [])].join(","));
    download(new Blob([[head.join(","), ...lines].join("\n") + "\n"], { type: "text/csv" }), `${data.title.replace(/[^\w.-]+/g, "_")}-rows.csv`);
  }

  $("by-label").hidden = !colourings.length; $("new-label").hidden = !fresh; $("spectrum-card").hidden = !data.eigenvalues;
  $("axes").parentElement.hidden = options.length < 2;
  for (const id of ["across", "up", "axes", "new"]) $(id).addEventListener("change", () => draw());
  $("by").addEventListener("change", () => { state.by = Number($("by").value); find(state.wanted); });
  $("find").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => find($("find").value), 120); });
  $("lasso").addEventListener("click", () => { state.lasso = !state.lasso; $("lasso").setAttribute("aria-pressed", String(state.lasso)); draw(); });
  $("save").addEventListener("click", save);
  for (const format of ["png", "svg"]) $(format).addEventListener("click", () => picture(format));
  $("full").addEventListener("click", () => (document.fullscreenElement ? document.exitFullscreen() : $("map").requestFullscreen()));
  document.addEventListener("fullscreenchange", () => setTimeout(() => Plotly.Plots.resize("scatter"), 100));
  for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) addEventListener(event, () => { state.printing = printing; draw().then(() => printing || Plotly.Plots.resize("scatter")); });
  const first = draw();
  $("scatter").on("plotly_relayout", (change) => { if (!solid() && Object.keys(change).some((key) => /axis|autosize|width/.test(key))) names(); });
  $("scatter").on("plotly_relayouting", tiles);
  if (images) {
    $("scatter").on("plotly_hover", ({ event, points: [{ customdata: i }] }) => {
      const tip = $("thumb"), box = $("stage").getBoundingClientRect();
      tip.hidden = !Number.isInteger(i);
      if (!tip.hidden) { tip.replaceChildren(thumbnail(i, 96)); tip.style.left = `${event.clientX - box.left}px`; tip.style.top = `${event.clientY - box.top}px`; }
    });
    $("scatter").on("plotly_unhover", () => { $("thumb").hidden = true; });
  }
  $("scatter").on("plotly_click", (e) => { const i = e.points[0].customdata; if (Number.isInteger(i)) pick(i === state.picked ? -1 : i); });
  $("scatter").on("plotly_selected", (e) => {
    if (!e || !(e.lassoPoints || e.range)) return; // clearing the outline below tells of itself
    const caught = e.points.map((p) => p.customdata).filter(Number.isInteger);
    state.lassos++;
    if (caught.length) { state.marked = new Set(caught); state.found = null; state.only = -1; state.lasso = false; $("lasso").setAttribute("aria-pressed", "false"); }
    draw();
  });
  $("scatter").on("plotly_doubleclick", () => { state.marked = null; draw(); });
  if (data.eigenvalues) spectrum("spectrum", [{ name: "", y: data.eigenvalues }]);
  themeListeners.push(() => { draw(); if (data.eigenvalues) spectrum("spectrum", [{ name: "", y: data.eigenvalues }]); });
  window.map = { state, pick, find, draw };
  first.then(() => { document.body.dataset.ready = "true"; });
});
