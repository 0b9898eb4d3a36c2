// The report page: one slider drives the shape, the spectrum's marker and the error's marker.
start().then((data) => {
  const { n, k } = data, scaled = (text, Type, top) => Float32Array.from(unpack(text, Type), (x) => x / top);
  const shape = {
    n, turn: data.turn, positions: scaled(data.positions, Int16Array, 32767), sizes: new Float32Array(n),
    faces: data.faces ? unpack(data.faces, n < 65536 ? Uint16Array : Uint32Array) : null,
    normals: data.normals ? scaled(data.normals, Int8Array, 127) : null,
  };
  if (data.sizes) shape.sizes = Float32Array.from(unpack(data.sizes, Uint16Array), (x) => x / 65535);
  const vectors = unpack(data.vectors, Int16Array), mass = scaled(data.mass, Uint8Array, 255);
  const diverging = unpack(data.diverging, Uint8Array), sequential = unpack(data.sequential, Uint8Array);
  const scene = new Scene($("scene"), shape), half = new Float32Array(n).fill(0.5);
  $("cuts").hidden = !data.cuts;
  const state = { mode: "vector", index: Math.min(2, k), k: Math.min(20, k), shown: null };
  const subscript = (i) => String(i).replace(/\d/g, (d) => "₀₁₂₃₄₅₆₇₈₉"[d]);
  const entry = (j, i) => (vectors[j * n + i] / 32767) * data.scales[j];

  function rebuilt(count) {
    const x = new Float32Array(3 * n);
    for (let j = 0; j < count; j++) {
      const c = data.coefficients[j].map((value) => (value * data.scales[j]) / 32767), row = j * n;
      for (let i = 0; i < n; i++) { const v = vectors[row + i]; x[3 * i] += c[0] * v; x[3 * i + 1] += c[1] * v; x[3 * i + 2] += c[2] * v; }
    }
    return x;
  }

  function show() {
    const slider = $("slider"), vector = state.mode === "vector", rebuild = state.mode === "rebuild";
    slider.hidden = $("play").hidden = !vector && !rebuild;
    slider.max = k; slider.value = vector ? state.index : state.k;
    slider.setAttribute("aria-label", vector ? "Which eigenfunction" : "How many eigenfunctions");
    for (const tab of $("tabs").children) tab.setAttribute("aria-selected", String(tab.dataset.mode === state.mode));
    scene.move(rebuild ? rebuilt(state.k) : shape.positions);
    if (vector) {
      const j = state.index - 1, limit = data.limits[j], values = new Float32Array(n);
      for (let i = 0; i < n; i++) values[i] = 0.5 + (0.5 * entry(j, i)) / limit;
      const flat = values.every((v) => Math.abs(v - values[0]) < 1e-3);
      state.shown = (i) => `φ${subscript(state.index)} = ${short(entry(j, i))}`;
      scene.colour(flat ? half : values, diverging, { lines: !flat });
      legend(diverging, "−" + short(limit), "0", short(limit));
      $("name").textContent = `φ${subscript(state.index)}`;
      $("value").textContent = `λ = ${short(data.eigenvalues[j])}` + (flat ? ", constant" : "");
    } else if (rebuild) {
      state.shown = null;
      scene.colour(half, diverging, { plain: [0.8, 0.78, 0.75] });
      legend(null);
      $("name").textContent = `k = ${state.k}`;
      $("value").textContent = `error ${short(data.errors[state.k - 1])} % of radius`;
    } else if (state.mode === "cuts") {
      const most = Math.max(1, ...data.cuts), values = Float32Array.from(data.cuts, (count) => count / most);
      state.shown = (i) => `${data.cuts[i]} cut`;
      scene.colour(values, sequential);
      legend(sequential, "0", "edges", String(most));
      $("name").textContent = "cut edges"; $("value").textContent = `${data.cutEdges} short-cuts in all`;
    } else {
      const [low, high] = data.massRange;
      state.shown = (i) => `${short(low + mass[i] * (high - low))} × 1/n`;
      scene.colour(mass, sequential);
      legend(sequential, short(low), "× 1/n", short(high));
      $("name").textContent = "mass"; $("value").textContent = "share of the total";
    }
    mark();
  }

  const drawn = data.errors && data.errors.map((e) => Math.max(e, 1e-4 * data.errors[0])); // rounding is no picture
  const steps = Array.from({ length: k }, (_, i) => i + 1);
  function charts() {
    const accent = paint("--accent"), dot = { color: "#d55e00", size: 10, line: { color: paint("--card"), width: 2 } };
    const curve = (y, text) => [
      { x: steps, y, mode: "lines+markers", line: { color: accent, width: 2 }, marker: { size: 4.5, color: accent }, hovertemplate: text },
      { x: [1], y: [y[0]], mode: "markers", marker: dot, hoverinfo: "skip" },
    ];
    Plotly.react("spectrum", curve(data.eigenvalues, "λ<sub>%{x}</sub> = %{y:.4g}<extra></extra>"), chartLayout({ xaxis: { title: { text: "index", standoff: 4 } }, yaxis: { rangemode: "tozero" } }), CONFIG);
    if (data.errors) Plotly.react("errors", curve(drawn, "k = %{x}: %{y:.3g} %<extra></extra>"), chartLayout({ xaxis: { title: { text: "k", standoff: 4 } }, yaxis: { type: "log", ...logTicks(drawn) } }), CONFIG);
    const [edges, counts] = data.massHistogram;
    Plotly.react("mass", [{ type: "bar", x: edges, y: counts, marker: { color: accent, opacity: 0.85 }, hovertemplate: "%{x:.3g} × 1/n: %{y} points<extra></extra>" }], chartLayout({ bargap: 0.04, yaxis: { rangemode: "tozero" } }), CONFIG);
  }

  function mark() {
    Plotly.restyle("spectrum", { x: [[state.index]], y: [[data.eigenvalues[state.index - 1]]] }, [1]);
    if (data.errors) Plotly.restyle("errors", { x: [[state.k]], y: [[drawn[state.k - 1]]] }, [1]);
  }

  function choose(mode, value) { state.mode = mode; if (mode === "vector") state.index = value ?? state.index; else if (mode === "rebuild") state.k = value ?? state.k; show(); }
  $("slider").addEventListener("input", (e) => choose(state.mode, Number(e.target.value)));
  $("tabs").addEventListener("click", (e) => { if (e.target.dataset.mode) choose(e.target.dataset.mode); });
  let timer = 0;
  $("play").addEventListener("click", () => {
    clearInterval(timer);
    if (timer) { timer = 0; $("play").textContent = "▶"; return; }
    $("play").textContent = "❚❚";
    timer = setInterval(() => { const at = state.mode === "vector" ? state.index : state.k; if (["vector", "rebuild"].includes(state.mode)) choose(state.mode, (at % k) + 1); }, 450);
  });
  document.addEventListener("keydown", (e) => {
    if (e.target.tagName === "INPUT" || !["ArrowLeft", "ArrowRight"].includes(e.key)) return;
    const at = (state.mode === "rebuild" ? state.k : state.index) + (e.key === "ArrowRight" ? 1 : -1);
    choose(state.mode, Math.min(k, Math.max(1, at)));
  });
  scene.onhover = (e) => {
    const tip = $("tip"), i = state.shown && e.type !== "pointerleave" && e.pointerType === "mouse" ? scene.pick(e.clientX, e.clientY) : -1;
    tip.hidden = i < 0;
    if (i < 0) return;
    const box = $("stage").getBoundingClientRect();
    tip.textContent = `point ${data.rows ? data.rows[i] : i}: ${state.shown(i)}`;
    tip.style.left = `${e.clientX - box.left}px`; tip.style.top = `${e.clientY - box.top}px`;
  };
  if (!data.errors) { $("errors-card").hidden = true; document.querySelector('[data-mode="rebuild"]').hidden = true; }
  charts();
  $("spectrum").on("plotly_click", (e) => choose("vector", e.points[0].x));
  if (data.errors) $("errors").on("plotly_click", (e) => choose("rebuild", e.points[0].x));
  themeListeners.push(() => { charts(); mark(); });
  show();
  window.report = { state, choose, scene };
  document.body.dataset.ready = "true";
});
