// The embedding page: one scatter, coloured by label, with any two coordinates on its axes.
start().then((data) => {
  const { n, k, classes } = data, x = Float32Array.from(unpack(data.coordinates, Float32Array)), codes = classes ? unpack(data.codes, Uint16Array) : null;
  const canvas = document.createElement("canvas"), type = canvas.getContext("webgl2") ? "scattergl" : "scatter";
  const groups = classes ? classes.map(() => []) : [Array.from({ length: n }, (_, i) => i)];
  if (codes) codes.forEach((code, i) => groups[code].push(i));
  for (const id of ["across", "up"]) for (let j = 0; j < k; j++) $(id).add(new Option(String(j + 1), String(j)));
  $("across").value = "0"; $("up").value = String(Math.min(1, k - 1));
  const size = Math.min(7, Math.max(3, 260 / Math.sqrt(n)));

  function traces() {
    const a = Number($("across").value), b = Number($("up").value), wanted = $("find").value.trim().toLowerCase();
    return groups.map((members, g) => ({
      type, mode: "markers", name: classes ? classes[g] : "points", x: members.map((i) => x[i * k + a]), y: members.map((i) => x[i * k + b]),
      text: members.map((i) => (data.texts ? data.texts[i] : `point ${data.rows ? data.rows[i] : i}`)),
      hovertemplate: (classes ? `<b>${classes[g].replace(/</g, "&lt;")}</b><br>` : "") + "%{text}<extra></extra>",
      marker: { size, color: data.colours[g], opacity: !wanted || (classes && classes[g].toLowerCase().includes(wanted)) ? 0.8 : 0.06, line: { width: 0 } },
    }));
  }

  function draw() {
    const axis = { zeroline: false, showticklabels: false, fixedrange: false, showgrid: true };
    const many = classes && classes.length > 1, wide = innerWidth > 900;
    Plotly.react("scatter", traces(), chartLayout({
      xaxis: { ...axis, showgrid: true }, yaxis: axis, dragmode: "pan", margin: { l: 14, r: 14, t: 12, b: 14 }, showlegend: Boolean(many),
      legend: wide ? { itemsizing: "constant", font: { size: 11 } } : { orientation: "h", itemsizing: "constant", font: { size: 10 }, maxheight: 0.25 },
    }), { displaylogo: false, responsive: true, scrollZoom: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] });
    const accent = paint("--accent");
    if (data.eigenvalues) Plotly.react("spectrum", [{ x: data.eigenvalues.map((_, i) => i + 1), y: data.eigenvalues, mode: "lines+markers", line: { color: accent, width: 2 }, marker: { size: 4.5 }, hovertemplate: "λ<sub>%{x}</sub> = %{y:.4g}<extra></extra>" }], chartLayout({ yaxis: { rangemode: "tozero" } }), CONFIG);
    if (classes) Plotly.react("classes", [{ type: "bar", x: classes, y: groups.map((g) => g.length), marker: { color: data.colours }, hovertemplate: "%{x}: %{y}<extra></extra>" }], chartLayout({ xaxis: { type: "category", showticklabels: classes.length <= 12 }, yaxis: { rangemode: "tozero" } }), CONFIG);
  }
  $("spectrum-card").hidden = !data.eigenvalues; $("classes-card").hidden = $("find-label").hidden = !classes;
  for (const id of ["across", "up"]) $(id).addEventListener("change", draw);
  $("find").addEventListener("input", draw);
  themeListeners.push(draw);
  draw();
  document.body.dataset.ready = "true";
});
