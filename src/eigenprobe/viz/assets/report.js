// The report page: one slider drives one shape, or two side by side, and the markers of spectrum and error.
start().then((data) => {
  const scaled = (text, Type, top) => Float32Array.from(unpack(text, Type), (x) => x / top), maps = {};
  for (const [name, bytes] of Object.entries(data.maps)) { maps[name] = unpack(bytes, Uint8Array); $("map").add(new Option(name)); }
  const [SIGNED, UNSIGNED] = Object.keys(maps), CLAY = [0.8, 0.78, 0.75];
  $("map").add(new Option("auto"), 0); $("map").value = "auto";

  const shapes = data.shapes.map((stored) => {
    const { n } = stored, s = { ...stored, signs: stored.signs || [], vectors: unpack(stored.vectors, Int16Array) };
    const read = (each) => ({ ...each, data: scaled(each.data, Int16Array, 32767 / each.scale) });
    s.shape = {
      n, turn: s.turn, radius: s.radius, positions: scaled(s.positions, Int16Array, 32767), faces: s.faces ? unpack(s.faces, Uint32Array) : null,
    };
    s.mass = read(s.mass); s.own = s.own && s.own.map(read);
    s.cutLines = s.cutLines && unpack(s.cutLines, Uint32Array);
    s.entry = (j, i) => ((s.vectors[j * n + i] / 32767) * s.scales[j]) * (s.signs[j] || 1);
    const positive = s.eigenvalues.filter((v) => v > 1e-6 * Math.max(...s.eigenvalues)), least = Math.min(...positive), most = Math.max(...positive);
    s.time = (reach) => (positive.length ? (0.5 / most) * ((4 * most) / least) ** reach : 1); // from the finest to the coarsest known mode
    return s;
  });
  const [first] = shapes, k = Math.min(...shapes.map((s) => s.k)), pair = shapes.length > 1;
  const scenes = [new Scene($("scene"), first.shape)];
  if (pair || first.errors) scenes.push(new Scene($("second"), (shapes[1] || first).shape));
  for (const scene of scenes) scene.peers = scenes;
  const tab = (mode) => document.querySelector(`[data-mode="${mode}"]`);
  tab("cuts").hidden = !first.cuts; tab("own").hidden = !first.own;
  for (const { name } of first.own || []) $("own").add(new Option(name));
  tab("rebuild").hidden = $("errors-card").hidden = !first.errors; $("wire-label").hidden = !first.mesh;
  const state = { mode: "vector", index: first.numbers ? 1 : Math.min(2, k), k: Math.min(20, k), response: "first k", low: 1, detail: 0, field: "heat kernel", reach: 0.4, point: 0, own: first.own ? first.own[0].name : "", map: "auto", range: 1, wire: false, playing: false };
  const number = (s, j) => (s.numbers ? s.numbers[j] : j + 1);
  const subscript = (i) => String(i).replace(/\d/g, (d) => "₀₁₂₃₄₅₆₇₈₉"[d]), quantile = (list, q) => Float32Array.from(list).sort()[Math.floor(q * (list.length - 1))];

  // --- what is shown: values in [0, 1] along a ramp, words, and where the points are ---
  function gains(s) { // of the modes of a shape: V g(lambda) V^T M
    const t = s.time(state.reach);
    return s.eigenvalues.map((value, j) => (state.response === "heat" ? Math.exp(-t * value) : Number(j < state.k && (state.response !== "band" || j + 1 >= state.low))));
  }
  function rebuilt(s) {
    const g = gains(s), o = state.detail, { n } = s, x = new Float32Array(3 * n), whole = s.shape.positions;
    for (let j = 0; j < s.k; j++) {
      const c = s.coefficients[j].map((value) => ((g[j] - o) * value * s.scales[j]) / 32767);
      if (g[j] !== o) for (let i = 0; i < n; i++) { const v = s.vectors[j * n + i]; for (let a = 0; a < 3; a++) x[3 * i + a] += c[a] * v; }
    }
    if (o) for (let i = 0; i < 3 * n; i++) x[i] += o * whole[i];
    return x;
  }
  function moved(s) { // |X' - X|_M in % of the radius, from all points
    const g = gains(s), rest = s.errors[s.k - 1] / 100;
    return 100 * Math.sqrt(s.coefficients.reduce((sum, c, j) => sum + (g[j] - 1) ** 2 * (c[0] ** 2 + c[1] ** 2 + c[2] ** 2), 0) + (state.detail - 1) ** 2 * rest ** 2);
  }
  function fromPoint(s, source) {
    const { n } = s, t = s.time(state.reach), kind = state.field.split(" ")[0], top = Math.max(...s.eigenvalues), out = new Float32Array(n);
    for (let j = 0; j < s.k; j++) {
      const value = s.eigenvalues[j], at = s.entry(j, source);
      if (kind === "heat") { const g = Math.exp(-t * value) * at; for (let i = 0; i < n; i++) out[i] += g * s.entry(j, i); }
      else if (kind === "diffusion" || value > 1e-6 * top) { const g = kind === "diffusion" ? Math.exp(-2 * t * value) : kind === "commute" ? 1 / value : 1 / value ** 2; for (let i = 0; i < n; i++) out[i] += g * (s.entry(j, i) - at) ** 2; }
    }
    return kind === "heat" ? out : out.map(Math.sqrt);
  }
  // The source in another shape: the same row where both have it, else the nearest place.
  function source(s) {
    if (s === first || s.n === first.n) return state.point;
    const x = first.shape.positions.subarray(3 * state.point, 3 * state.point + 3), y = s.shape.positions;
    let best = 0, least = Infinity;
    for (let i = 0; i < s.n; i++) { const d = (y[3 * i] - x[0]) ** 2 + (y[3 * i + 1] - x[1]) ** 2 + (y[3 * i + 2] - x[2]) ** 2; if (d < least) { least = d; best = i; } }
    return best;
  }
  const onto = (list, low, high) => Float32Array.from(list, (v) => (v - low) / (high - low || 1));

  const modes = {
    vector(s) {
      const j = state.index - 1, limit = s.limits[j] * state.range, raw = Float32Array.from({ length: s.n }, (_, i) => s.entry(j, i));
      const flat = raw.every((v) => Math.abs(v - raw[0]) < 2e-3 * s.limits[j]), cosine = s.cosines && j < s.cosines.length ? `, |cos| ${s.cosines[j].toFixed(3)}` : "";
      // What another sample of the shape would not show again is drawn paler.
      const known = s.uncertainty ? s.uncertainty.vectors[j] : 1, pale = Math.max(known, 0.2), said = s.uncertainty && !flat ? ` ± ${(100 * s.uncertainty.eigenvalues[j]).toPrecision(2)} %, ${known.toFixed(2)} reproducible` : "";
      return { values: flat ? raw.fill(0.5) : onto(raw, -limit, limit).map((v) => 0.5 + pale * (v - 0.5)), signed: true, lines: !flat, bar: ["−" + short(limit), "0", short(limit)],
        name: `φ${subscript(number(s, j))}`, value: `λ = ${short(s.eigenvalues[j])}` + said + (flat ? ", constant" : "") + cosine, tip: (i) => `φ${subscript(number(s, j))} = ${short(s.entry(j, i))}` };
    },
    mass(s) {
      const { data: raw, range: [low, high] } = s.mass, top = low + (high - low) * state.range;
      return { values: onto(raw, low, top), bar: [short(low), "× 1/n", short(top)], name: "mass", value: "share of the total", tip: (i) => `${short(raw[i])} × 1/n` };
    },
    rebuild(s) {
      const positions = rebuilt(s), x = s.shape.positions, off = Float32Array.from({ length: s.n }, (_, i) => 100 * Math.hypot(positions[3 * i] - x[3 * i], positions[3 * i + 1] - x[3 * i + 1], positions[3 * i + 2] - x[3 * i + 2]));
      const top = Math.max(quantile(off, 0.99), 0.05) * state.range;
      return { positions, values: onto(off, 0, top), bar: ["0", "% of radius", short(top)], name: state.response === "heat" ? `t = ${short(s.time(state.reach))}` : state.response === "band" ? `${state.low} to ${state.k}` : `k = ${state.k}`,
        value: `error ${short(moved(s))} % of radius`, tip: (i) => `off by ${short(off[i])} % of radius` };
    },
    point(s) {
      const at = source(s), raw = fromPoint(s, at), heat = state.field === "heat kernel", top = (heat ? quantile(raw, 0.999) : Math.max(...raw)) * state.range, row = s.rows ? s.rows[at] : at;
      return { values: heat ? onto(raw.map((v) => Math.max(v, 1e-3 * top)), -top, top) : onto(raw, 0, top), signed: heat, lines: true, bar: heat ? ["", "0", short(top)] : ["0", "", short(top)], mark: at,
        name: state.field, value: `point ${row}` + (/heat|diffusion/.test(state.field) ? `, t = ${short(s.time(state.reach))}` : ""), tip: (i) => short(raw[i]) };
    },
    own(s) {
      if (!s.own) return { values: new Float32Array(s.n), plain: CLAY, bar: ["", "", ""], name: "", value: "" };
      const { name, data: raw, range } = s.own.find((each) => each.name === state.own) || s.own[0], signed = range[0] < 0 && range[1] > 0;
      const high = (signed ? Math.max(-range[0], range[1]) : range[1]) * state.range, low = signed ? -high : range[0];
      return { values: onto(raw, low, high), signed, lines: signed, bar: [short(low), "", short(high)], name, value: "", tip: (i) => short(raw[i]) };
    },
    cuts(s) {
      if (!s.cuts) return { values: new Float32Array(s.n), plain: CLAY, bar: ["", "", ""], name: "", value: "cuts no edges" };
      const counts = s.cuts, most = Math.max(1, ...counts) * state.range;
      return { values: onto(counts, 0, most), bar: ["0", "edges", short(most)], links: s.cutLines, name: "cut edges", value: `${s.cutEdges || 0} short-cuts in all`, tip: (i) => `${counts[i]} cut` };
    },
  };

  let shown = [];
  function paintOn(scene, s, what, prefix) {
    const ramp = maps[state.map === "auto" ? (what.signed ? SIGNED : UNSIGNED) : state.map];
    scene.wires = state.wire; scene.links = what.links || null; scene.mark = what.mark;
    scene.move(what.positions || s.shape.positions);
    scene.colour(what.values, ramp, { lines: what.lines, plain: what.plain });
    $(`${prefix}name`).textContent = s.name && pair ? `${s.name}  ${what.name}` : what.name; $(`${prefix}value`).textContent = what.value;
    return ramp;
  }
  function show() {
    const { mode } = state, sliding = mode === "vector" || (mode === "rebuild" && state.response !== "heat");
    $("slider").hidden = $("play").hidden = !sliding;
    $("slider").max = $("low-mode").max = k; $("slider").value = mode === "rebuild" ? state.k : state.index;
    $("slider").setAttribute("aria-label", mode === "rebuild" ? "How many eigenfunctions" : "Which eigenfunction");
    for (const each of $("tabs").children) each.setAttribute("aria-selected", String(each.dataset.mode === mode));
    for (const each of document.querySelectorAll("[data-for]")) each.hidden = !each.dataset.for.split(" ").includes(mode);
    $("low-label").hidden ||= state.response !== "band";
    $("reach-label").hidden ||= mode === "rebuild" ? state.response !== "heat" : !/heat|diffusion/.test(state.field);
    for (const [id, value] of Object.entries({ response: state.response, "low-mode": state.low, detail: state.detail, field: state.field, own: state.own, reach: state.reach, map: state.map, range: Math.log2(state.range) })) $(id).value = value;
    $("wire").checked = state.wire;
    const two = pair || mode === "rebuild";
    $("beside").hidden = !two;
    shown = shapes.map((s) => modes[mode](s));
    if (two && !pair) shown.push({ values: shown[0].values, plain: CLAY, name: "original", value: "the input" });
    const ramp = paintOn(scenes[0], first, shown[0], "");
    if (two) paintOn(scenes[1], shapes[1] || first, shown[1], "second-");
    legend(ramp, ...shown[0].bar);
    const words = `${$("name").textContent}, ${$("value").textContent}`;
    if ($("said").textContent !== words) $("said").textContent = words;
    mark();
  }

  // --- charts ---
  const drawn = first.errors && shapes.map(({ errors }) => errors.map((e) => Math.max(e, 1e-4 * errors[0]))); // rounding is no picture
  const plots = Boolean($("plotly").textContent.trim());
  // Eigenvalues that nearly coincide with the next or the last: their vectors may be any rotation of each other.
  const degenerate = (j) => [j - 1, j + 1].some((i) => Math.abs(first.eigenvalues[i] - first.eigenvalues[j]) < 0.03 * first.eigenvalues[j]);
  function agreement() {
    const { cosines, correlation } = shapes[1], index = cosines.map((_, i) => i + 1);
    const bars = { type: "bar", x: index, y: cosines, text: index.map((i) => (degenerate(i - 1) ? "<br>nearly equal eigenvalues:<br>compare the pair" : "")), textposition: "none", marker: { color: index.map((i) => paint(degenerate(i - 1) ? "--second" : "--accent")), opacity: 0.85 }, hovertemplate: "%{x}: %{y:.3f}%{text}<extra></extra>" };
    Plotly.react("cosines", [bars], chartLayout({ bargap: 0.15, xaxis: { title: { text: "index", standoff: 4 } }, yaxis: { range: [0, 1.02] } }), CONFIG);
    const scale = [[0, paint("--card")], [1, paint("--accent")]];
    const pairs = { type: "heatmap", z: correlation, x: index, y: index, zmin: 0, zmax: 1, colorscale: scale, showscale: false, hovertemplate: `${first.name} %{y}, ${shapes[1].name} %{x}: %{z:.3f}<extra></extra>` };
    Plotly.react("matrix", [pairs], chartLayout({ xaxis: { title: { text: shapes[1].name, standoff: 4 }, constrain: "domain" }, yaxis: { title: { text: first.name }, autorange: "reversed", scaleanchor: "x", constrain: "domain" } }), CONFIG);
  }
  function charts() {
    if (!plots) return;
    $("compare-card").hidden = !(pair && shapes[1].correlation);
    if (!$("compare-card").hidden) agreement();
    spectrum("spectrum", shapes.map((s) => ({ name: s.name, y: s.eigenvalues, error: s.uncertainty && s.uncertainty.eigenvalues.map((e, j) => e * s.eigenvalues[j]) })));
    if (drawn) curves("errors", shapes.map((s, i) => ({ name: s.name, y: drawn[i] })), "k = %{x}: %{y:.3g} %", { legend: { x: 0.98, y: 0.98, xanchor: "right", bgcolor: "rgba(0,0,0,0)" }, xaxis: { title: { text: "k", standoff: 4 } }, yaxis: { type: "log", ...logTicks(drawn.flat()) } });
    const [edges, counts] = first.massHistogram;
    Plotly.react("mass", [{ type: "bar", x: edges, y: counts, marker: { color: paint("--accent"), opacity: 0.85 }, hovertemplate: "%{x:.3g} × 1/n: %{y} points<extra></extra>" }], chartLayout({ bargap: 0.04, yaxis: { rangemode: "tozero" } }), CONFIG);
  }
  function mark() {
    if (!plots) return;
    Plotly.restyle("spectrum", { x: [[state.index]], y: [[first.eigenvalues[state.index - 1]]] }, [shapes.length]);
    if (drawn) Plotly.restyle("errors", { x: [[state.k]], y: [[drawn[0][state.k - 1]]] }, [shapes.length]);
  }

  // --- controls: everything goes through set ---
  let tell = () => {};
  function set(changes) { Object.assign(state, changes); show(); tell(); }
  const slide = (value) => set(state.mode === "rebuild" ? { k: value } : { index: value });
  $("slider").addEventListener("input", (e) => slide(Number(e.target.value)));
  $("tabs").addEventListener("click", (e) => { if (e.target.dataset.mode) set({ mode: e.target.dataset.mode }); });
  for (const [id, name] of [["response", "response"], ["field", "field"], ["map", "map"], ["own", "own"]]) $(id).addEventListener("change", (e) => set({ [name]: e.target.value }));
  for (const [id, name] of [["low-mode", "low"], ["detail", "detail"], ["reach", "reach"]]) $(id).addEventListener("input", (e) => set({ [name]: Number(e.target.value) }));
  $("range").addEventListener("input", (e) => set({ range: 2 ** Number(e.target.value) }));
  $("wire").addEventListener("change", (e) => set({ wire: e.target.checked }));
  let timer = 0;
  function play(playing) {
    clearInterval(timer); state.playing = playing; $("play").textContent = playing ? "❚❚" : "▶";
    if (playing) timer = setInterval(() => { if (["vector", "rebuild"].includes(state.mode)) slide(((state.mode === "rebuild" ? state.k : state.index) % k) + 1); }, 450);
  }
  $("play").addEventListener("click", () => { play(!state.playing); tell(); });
  document.addEventListener("keydown", (e) => {
    if (["INPUT", "SELECT", "CANVAS"].includes(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey) return;
    const at = state.mode === "rebuild" ? state.k : state.index, to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 1, End: k }[e.key];
    if (to !== undefined) { e.preventDefault(); slide(Math.min(k, Math.max(1, to))); }
    else if (e.key === " " && e.target.tagName !== "BUTTON") { e.preventDefault(); play(!state.playing); tell(); }
  });
  const STEP = Math.PI / 24, TURNS = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };
  for (const scene of scenes) scene.canvas.addEventListener("keydown", (e) => {
    if (TURNS[e.key]) scene.together((s) => s.rotate(...TURNS[e.key]));
    else if (e.key === "+" || e.key === "=" || e.key === "-") scene.zoomBy(e.key === "-" ? 0.87 : 1.15);
    else if (e.key === "Home" || e.key === "End") slide(e.key === "Home" ? 1 : k);
    else if (e.key === " ") { play(!state.playing); tell(); }
    else if (e.key === "Escape") scene.together((s) => { s.turn = s.home.slice(); s.framed = s.touched = false; });
    else return;
    e.preventDefault();
  });
  scenes.forEach((scene, at) => {
    scene.onhover = (e) => {
      const tip = $("tip"), say = shown[at] && shown[at].tip, i = say && e.type !== "pointerleave" && e.pointerType === "mouse" ? scene.pick(e.clientX, e.clientY) : -1;
      tip.hidden = i < 0;
      if (i < 0) return;
      const box = $("stage").getBoundingClientRect(), { rows } = shapes[at] || first;
      tip.textContent = `point ${rows ? rows[i] : i}: ${say(i)}`;
      tip.style.left = `${e.clientX - box.left}px`; tip.style.top = `${e.clientY - box.top}px`;
    };
    scene.onpick = (e) => { const i = scene.pick(e.clientX, e.clientY); if (i >= 0 && (!at || !pair || shapes[1].n === first.n)) set({ mode: "point", point: i }); };
  });

  // The scenes with their words and the colour bar, as one picture, 2400 pixels wide.
  function picture() {
    const drawn = scenes.slice(0, $("beside").hidden ? 1 : 2), views = drawn.map((s) => s.canvas), ratio = 2400 / views.reduce((sum, v) => sum + v.clientWidth, 0);
    for (const scene of drawn) { scene.ratio = ratio; scene.render(); }
    const out = document.createElement("canvas"), pen = out.getContext("2d");
    out.width = views.reduce((sum, v) => sum + v.width, 0); out.height = views[0].height;
    pen.fillStyle = paint("--card"); pen.fillRect(0, 0, out.width, out.height);
    views.forEach((view, i) => {
      const left = i * views[0].width, at = i ? "second-" : "";
      pen.drawImage(view, left, 0); drawn[i].ratio = 0; drawn[i].draw(); pen.fillStyle = paint("--ink"); pen.font = `600 ${22 * ratio}px system-ui, sans-serif`; pen.fillText($(`${at}name`).textContent, left + 18 * ratio, 34 * ratio);
      pen.fillStyle = paint("--faint"); pen.font = `${14 * ratio}px system-ui, sans-serif`; pen.fillText($(`${at}value`).textContent, left + 18 * ratio, 56 * ratio);
    });
    const left = out.width - 168 * ratio;
    pen.drawImage($("ramp"), left, 20 * ratio, 150 * ratio, 9 * ratio); pen.font = `${11 * ratio}px system-ui, sans-serif`;
    ["low", "middle", "high"].forEach((id, i) => { pen.textAlign = ["left", "center", "right"][i]; pen.fillText($(id).textContent, left + (i * 150 * ratio) / 2, 44 * ratio); });
    return out;
  }
  $("shot").addEventListener("click", () => picture().toBlob((blob) => download(blob, `${data.title.replace(/[^\w.-]+/g, "_")}.png`)));

  charts();
  if (plots) $("spectrum").on("plotly_click", (e) => set({ mode: "vector", index: Math.min(k, e.points[0].x) }));
  if (drawn && plots) $("errors").on("plotly_click", (e) => set({ mode: "rebuild", response: "first k", k: Math.min(k, e.points[0].x) }));
  themeListeners.push(() => { charts(); mark(); });
  show();
  if (data.again) {
    let asked = 0;
    setInterval(async () => {
      const told = await fetch("choice").then((answer) => answer.json()).catch(() => null);
      if (!told || told.asked === asked) return;
      asked = told.asked; Object.assign(state, told.choice); play(state.playing); show();
    }, 300);
    tell = () => fetch("choice", { method: "POST", body: JSON.stringify(state) }).catch(() => {});
    const { again } = data, form = $("again");
    form.hidden = false;
    for (const [name, value] of Object.entries(again)) $(`again-${name}`).value = value;
    form.addEventListener("submit", (e) => e.preventDefault());
    form.addEventListener("change", async () => {
      const given = Object.keys(again).map((name) => [name, $(`again-${name}`).value]);
      const wanted = Object.fromEntries(given.map(([name, value]) => [name, /^\d+$/.test(value) ? +value : value]));
      $("again-said").textContent = "computing …"; form.inert = true;
      const answer = await fetch("basis", { method: "POST", body: JSON.stringify(wanted) }).catch(() => null);
      form.inert = false;
      if (answer && answer.ok) location.reload();
      else $("again-said").textContent = answer ? await answer.text() : "the viewer does not answer";
    });
  }
  window.report = { state, set, scene: scenes[0], scenes, shapes, fromPoint, rebuilt, moved, picture };
  document.body.dataset.ready = "true";
});
