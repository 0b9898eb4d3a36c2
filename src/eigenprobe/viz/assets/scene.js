// A shape to turn: WebGL 2 where there is one, a sorted canvas where there is not. Both light the surface as viz/drawing.py does.
const GREY = [0.55, 0.57, 0.6];
const EYE = 5.0; // distance of the eye in units of the shape's radius

const VERTEX = `#version 300 es
in vec3 position; in vec3 normal; in float value;
uniform mat3 turn; uniform vec2 scale, shift; uniform float zoom, pixels, least, radius;
out float v; out vec3 n; out float depth;
void main() {
  vec3 y = turn * position; float w = 1.0 - y.z / ${EYE.toFixed(1)};
  gl_Position = vec4((y.xy * zoom + shift * w) * scale, (-y.z / 4.0) * w, w);
  gl_PointSize = max(least, 2.0 * radius * zoom * pixels / w);
  v = value; n = turn * normal; depth = y.z;
}`;

// Surfaces are triangles, points of other clouds are balls. With ink it draws lines and marks.
const FRAGMENT = `#version 300 es
precision highp float;
in float v; in vec3 n; in float depth;
uniform bool points, inked, lines; uniform vec4 ink; uniform float radius; uniform sampler2D ramp; uniform vec3 plain;
out vec4 colour;
void main() {
  vec3 m = n; float z = depth;
  if (points) {
    vec2 o = gl_PointCoord * 2.0 - 1.0; o.y = -o.y;
    float r = dot(o, o);
    if (r > 1.0) discard;
    m = vec3(o, sqrt(1.0 - r)); z += m.z * radius;
  }
  gl_FragDepth = clamp(0.5 - (inked ? depth + 0.012 : z) / 8.0, 0.0, 1.0);
  if (inked) { colour = ink; return; }
  m = normalize(m);
  if (m.z < 0.0) m = -m;
  float key = max(dot(m, vec3(-0.421, 0.608, 0.673)), 0.0), fill = max(dot(m, vec3(0.704, 0.100, 0.704)), 0.0);
  float shade = (0.50 + 0.44 * key + 0.12 * fill) * mix(0.86, 1.0, smoothstep(-1.0, 0.4, depth)) * mix(0.72, 1.0, smoothstep(0.0, 0.45, m.z));
  vec3 base = plain.x < 0.0 ? texture(ramp, vec2(clamp(v, 0.0, 1.0) * 0.996 + 0.002, 0.5)).rgb : plain;
  vec3 shown = base * shade + 0.10 * max(shade - 0.97, 0.0);
  float t = (v - 0.5) * 8.0, width = max(fwidth(t), 1e-5);
  if (lines && m.z > 0.12) { // at the outline values change too fast for lines
    float near = abs(t - round(t)) / width, nodal = abs(t) / width;
    shown *= 1.0 - 0.22 * (1.0 - smoothstep(0.3, 1.1, near)) * step(width, 0.6) - 0.35 * (1.0 - smoothstep(0.8, 1.8, nodal)) * step(width, 2.0);
  }
  colour = vec4(shown, 1.0);
}`;

class Scene {
  constructor(canvas, shape) {
    Object.assign(this, { canvas, shape, zoom: 1, shift: [0, 0], plain: null, lines: false, wires: false, links: null, peers: [this] });
    this.positions = shape.positions; this.home = shape.turn.slice(); this.turn = shape.turn.slice();
    this.values = new Float32Array(shape.n).fill(0.5); this.ramp = null;
    this.bound = new Set(shape.faces || Array.from({ length: shape.n }, (_, i) => i)); // points of the surface; the others are outliers
    this.loose = Uint32Array.from(Array.from({ length: shape.n }, (_, i) => i).filter((i) => !this.bound.has(i)));
    this.gl = canvas.getContext("webgl2", { antialias: true, preserveDrawingBuffer: true });
    if (this.gl) this.prepare(); else this.context = canvas.getContext("2d");
    this.move(shape.positions); this.listen();
    new ResizeObserver(() => { this.framed &&= this.touched; this.draw(); }).observe(canvas); // fits again until a hand has moved it
  }

  program(vertex, fragment) {
    const gl = this.gl, program = gl.createProgram(), places = {};
    for (const [type, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(type);
      gl.shaderSource(shader, source); gl.compileShader(shader); gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    return { program, at: (name) => (places[name] ??= gl.getUniformLocation(program, name)) };
  }

  texture() {
    const gl = this.gl, made = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, made);
    for (const key of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, key, gl.LINEAR);
    for (const key of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, key, gl.CLAMP_TO_EDGE);
    return made;
  }

  prepare() {
    const gl = this.gl;
    this.surface = this.program(VERTEX, FRAGMENT);
    this.buffers = {};
    for (const [name, width] of [["position", 3], ["normal", 3], ["value", 1]]) {
      const place = gl.getAttribLocation(this.surface.program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, (this.buffers[name] = gl.createBuffer()));
      gl.enableVertexAttribArray(place); gl.vertexAttribPointer(place, width, gl.FLOAT, false, 0, 0);
    }
    if (this.shape.faces) this.triangles = this.indices(this.shape.faces);
    if (this.loose.length) this.dots = this.indices(this.loose);
    this.rampTexture = this.texture();
  }

  indices(list) {
    const gl = this.gl, buffer = gl.createBuffer();
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, buffer); gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, list, gl.STATIC_DRAW);
    return { buffer, count: list.length, type: list.BYTES_PER_ELEMENT === 4 ? gl.UNSIGNED_INT : gl.UNSIGNED_SHORT };
  }

  // Every edge of the mesh once, as pairs of rows.
  edges() {
    const { faces, n } = this.shape, seen = new Set();
    if (!this.edgeList && faces) {
      for (let f = 0; f < faces.length; f += 3) for (const [a, b] of [[0, 1], [1, 2], [2, 0]]) { const i = faces[f + a], j = faces[f + b]; seen.add(Math.min(i, j) * n + Math.max(i, j)); }
      this.edgeList = Uint32Array.from([...seen].flatMap((key) => [Math.floor(key / n), key % n]));
    }
    return this.edgeList;
  }

  // Lines over the surface: its own edges, or links between points, which are seen through it.
  strokes() {
    const made = [];
    if (this.wires && this.shape.faces) made.push({ list: this.edges(), ink: [0.1, 0.12, 0.15, 0.34], through: false });
    if (this.links && this.links.length) made.push({ list: this.links, ink: [0.78, 0.12, 0.1, 0.85], through: true });
    return made;
  }

  stroke() {
    const gl = this.gl, { at, program } = this.surface;
    for (const { list, ink, through } of this.strokes()) {
      const line = (list.packed ??= this.indices(list));
      gl.useProgram(program); gl.uniform1i(at("inked"), 1); gl.uniform1i(at("points"), 0); gl.uniform4f(at("ink"), ink[0] * ink[3], ink[1] * ink[3], ink[2] * ink[3], ink[3]);
      gl[through ? "disable" : "enable"](gl.DEPTH_TEST); gl.depthMask(false); gl.enable(gl.BLEND); gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, line.buffer); gl.drawElements(gl.LINES, line.count, line.type, 0);
      gl.depthMask(true); gl.disable(gl.BLEND);
    }
    if (this.dots) {
      gl.useProgram(program); gl.enable(gl.DEPTH_TEST); gl.uniform1i(at("inked"), 1); gl.uniform1i(at("points"), 1); gl.uniform1f(at("radius"), 0); gl.uniform1f(at("least"), 4); gl.uniform4f(at("ink"), ...GREY, 1);
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.dots.buffer); gl.drawElements(gl.POINTS, this.dots.count, this.dots.type, 0);
    }
    if (this.mark === undefined) return;
    gl.useProgram(program); gl.disable(gl.DEPTH_TEST); gl.uniform1i(at("inked"), 1); gl.uniform1i(at("points"), 1);
    for (const [size, ink] of [[15, [1, 1, 1, 1]], [10, [0.8, 0.1, 0.1, 1]]]) { gl.uniform1f(at("least"), (size * this.canvas.width) / this.canvas.clientWidth); gl.uniform4f(at("ink"), ...ink); gl.drawArrays(gl.POINTS, this.mark, 1); }
  }

  fill(name, data) { const gl = this.gl; gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]); gl.bufferData(gl.ARRAY_BUFFER, data, gl.DYNAMIC_DRAW); }

  // Coordinates change (reconstruction): normals follow them on a surface; balls have none.
  move(positions) {
    this.positions = positions;
    const { n, faces } = this.shape, x = positions;
    let normals = positions === this.shape.positions ? this.shape.normals : null;
    if (!normals) {
      normals = new Float32Array(3 * n);
      for (let f = 0; faces && f < faces.length; f += 3) {
        const a = 3 * faces[f], b = 3 * faces[f + 1], c = 3 * faces[f + 2];
        const ux = x[b] - x[a], uy = x[b + 1] - x[a + 1], uz = x[b + 2] - x[a + 2], vx = x[c] - x[a], vy = x[c + 1] - x[a + 1], vz = x[c + 2] - x[a + 2];
        const nx = uy * vz - uz * vy, ny = uz * vx - ux * vz, nz = ux * vy - uy * vx;
        for (const i of [a, b, c]) { normals[i] += nx; normals[i + 1] += ny; normals[i + 2] += nz; }
      }
      for (let i = 0; i < 3 * n; i += 3) {
        const length = Math.hypot(normals[i], normals[i + 1], normals[i + 2]) || 1;
        normals[i] /= length; normals[i + 1] /= length; normals[i + 2] /= length;
      }
      if (positions === this.shape.positions) this.shape.normals = normals;
    }
    this.normals = normals;
    if (this.gl) { this.fill("position", positions); this.fill("normal", normals); }
  }

  // values in [0, 1] along the ramp (a Uint8Array of rgb triples); plain = [r, g, b] paints one colour instead.
  colour(values, ramp, { plain = null, lines = false } = {}) {
    Object.assign(this, { values, ramp, plain, lines: lines && !!this.shape.faces });
    if (this.gl) {
      const gl = this.gl; this.fill("value", values); gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
      gl.activeTexture(gl.TEXTURE0); gl.bindTexture(gl.TEXTURE_2D, this.rampTexture);
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGB8, ramp.length / 3, 1, 0, gl.RGB, gl.UNSIGNED_BYTE, ramp);
    }
    this.draw();
  }

  draw() { if (!this.pending) this.pending = requestAnimationFrame(() => { this.pending = 0; this.render(); }); }

  fit() {
    const ratio = this.ratio || Math.min(devicePixelRatio || 1, 2), w = Math.round(this.canvas.clientWidth * ratio), h = Math.round(this.canvas.clientHeight * ratio);
    if (this.canvas.width !== w || this.canvas.height !== h) { this.canvas.width = w; this.canvas.height = h; }
    return [w, h, 0.46 * Math.min(w, h)];
  }

  render() {
    const [w, h, unit] = this.fit();
    if (!w || !h || !this.ramp) return;
    if (!this.framed) this.frame(w, h, unit);
    if (!this.gl) return this.renderSorted(w, h, unit);
    const gl = this.gl, { program, at } = this.surface, { faces, n, radius } = this.shape;
    gl.activeTexture(gl.TEXTURE0); gl.bindTexture(gl.TEXTURE_2D, this.rampTexture); gl.useProgram(program); gl.viewport(0, 0, w, h);
    gl.enable(gl.DEPTH_TEST); gl.depthFunc(gl.LEQUAL); gl.disable(gl.BLEND); gl.clearColor(0, 0, 0, 0); gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniform1i(at("ramp"), 0); gl.uniform1i(at("lines"), this.lines ? 1 : 0); gl.uniform3f(at("plain"), ...(this.plain || [-1, -1, -1]));
    gl.uniformMatrix3fv(at("turn"), true, this.turn); gl.uniform2f(at("scale"), (2 * unit) / w, (2 * unit) / h); gl.uniform2f(at("shift"), ...this.shift);
    gl.uniform1f(at("zoom"), this.zoom); gl.uniform1f(at("pixels"), unit); gl.uniform1f(at("least"), 2); gl.uniform1f(at("radius"), radius);
    gl.uniform1i(at("points"), faces ? 0 : 1); gl.uniform1i(at("inked"), 0);
    if (faces) { gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.triangles.buffer); gl.drawElements(gl.TRIANGLES, this.triangles.count, this.triangles.type, 0); }
    else gl.drawArrays(gl.POINTS, 0, n);
    this.stroke();
  }

  // Fill the canvas with the shape as it is first seen.
  frame(w, h, unit) {
    this.framed = true; this.zoom = 1; this.shift = [0, 0];
    const p = this.project(w, h, unit, this.shape.positions), low = [Infinity, Infinity], high = [-Infinity, -Infinity];
    for (const j of this.bound) for (let i = 3 * j, a = 0; a < 2; a++) { low[a] = Math.min(low[a], p[i + a]); high[a] = Math.max(high[a], p[i + a]); }
    this.zoom = Math.min(3, 0.88 * Math.min(w / (high[0] - low[0] + 1), h / (high[1] - low[1] + 1)));
    this.shift = [(this.zoom * (w - low[0] - high[0])) / 2 / unit, (this.zoom * (low[1] + high[1] - h)) / 2 / unit];
  }

  project(w, h, unit, x = this.positions) {
    const { n } = this.shape, t = this.turn, out = new Float32Array(3 * n);
    for (let i = 0; i < 3 * n; i += 3) {
      const z = t[6] * x[i] + t[7] * x[i + 1] + t[8] * x[i + 2], s = (unit * this.zoom) / (1 - z / EYE);
      out[i] = w / 2 + unit * this.shift[0] + s * (t[0] * x[i] + t[1] * x[i + 1] + t[2] * x[i + 2]);
      out[i + 1] = h / 2 - unit * this.shift[1] - s * (t[3] * x[i] + t[4] * x[i + 1] + t[5] * x[i + 2]); out[i + 2] = z;
    }
    return out;
  }

  renderSorted(w, h, unit) {
    const pen = this.context, { n, faces, radius } = this.shape, t = this.turn, p = this.project(w, h, unit);
    pen.clearRect(0, 0, w, h);
    const count = faces ? faces.length / 3 : n, depth = new Float32Array(count), order = new Uint32Array(count);
    for (let i = 0; i < count; i++) { order[i] = i; depth[i] = faces ? p[3 * faces[3 * i] + 2] + p[3 * faces[3 * i + 1] + 2] + p[3 * faces[3 * i + 2] + 2] : p[3 * i + 2]; }
    order.sort((a, b) => depth[a] - depth[b]);
    for (const i of order) {
      const a = faces ? faces[3 * i] : i, m = this.normals;
      let nx = 0, ny = 0, nz = 1;
      if (m[3 * a] || m[3 * a + 1] || m[3 * a + 2]) [nx, ny, nz] = [0, 3, 6].map((r) => t[r] * m[3 * a] + t[r + 1] * m[3 * a + 1] + t[r + 2] * m[3 * a + 2]);
      if (nz < 0) { nx = -nx; ny = -ny; nz = -nz; }
      const shade = 0.5 + 0.44 * Math.max(0, -0.421 * nx + 0.608 * ny + 0.673 * nz) + 0.12 * Math.max(0, 0.704 * nx + 0.1 * ny + 0.704 * nz);
      const at = 3 * Math.round(Math.min(1, Math.max(0, this.values[a])) * (this.ramp.length / 3 - 1));
      const rgb = this.plain ? this.plain.map((c) => 255 * c) : [this.ramp[at], this.ramp[at + 1], this.ramp[at + 2]];
      pen.fillStyle = pen.strokeStyle = `rgb(${rgb.map((c) => Math.min(255, c * shade) | 0).join(",")})`;
      pen.beginPath();
      if (faces) { for (let c = 0; c < 3; c++) { const j = 3 * faces[3 * i + c]; pen[c ? "lineTo" : "moveTo"](p[j], p[j + 1]); } pen.closePath(); pen.stroke(); }
      else pen.arc(p[3 * i], p[3 * i + 1], Math.max(1, 0.7 * radius * unit * this.zoom), 0, 6.3);
      pen.fill();
    }
    pen.fillStyle = `rgb(${GREY.map((c) => 255 * c)})`;
    for (const i of this.loose) pen.fillRect(p[3 * i] - 1, p[3 * i + 1] - 1, 3, 3);
    for (const { list, ink } of this.strokes()) {
      pen.strokeStyle = `rgba(${ink.map((c, i) => (i < 3 ? 255 * c : c)).join(",")})`; pen.beginPath();
      for (let e = 0; e < list.length; e += 2) { pen.moveTo(p[3 * list[e]], p[3 * list[e] + 1]); pen.lineTo(p[3 * list[e + 1]], p[3 * list[e + 1] + 1]); }
      pen.stroke();
    }
    if (this.mark !== undefined) { pen.fillStyle = "rgb(204,26,26)"; pen.beginPath(); pen.arc(p[3 * this.mark], p[3 * this.mark + 1], 7, 0, 6.3); pen.fill(); }
  }

  // The point under the pointer on the side of the eye, or -1.
  pick(clientX, clientY) {
    const box = this.canvas.getBoundingClientRect(), [w, h, unit] = this.fit(), p = this.project(w, h, unit);
    const x = ((clientX - box.left) * w) / box.width, y = ((clientY - box.top) * h) / box.height, reach = (0.015 + 1.2 / Math.sqrt(this.shape.n)) * unit * this.zoom + 6;
    let best = -1, score = -Infinity;
    for (let i = 0; i < this.shape.n; i++) {
      const d = Math.hypot(p[3 * i] - x, p[3 * i + 1] - y);
      const near = p[3 * i + 2] - (5 * d) / (unit * this.zoom);
      if (d < reach && near > score) { best = i; score = near; }
    }
    return best;
  }

  rotate(dx, dy) {
    const [a, b] = [dx, dy], ca = Math.cos(a), sa = Math.sin(a), cb = Math.cos(b), sb = Math.sin(b);
    const r = [ca, 0, sa, sb * sa, cb, -sb * ca, -cb * sa, sb, cb * ca], t = this.turn, out = new Array(9);
    for (let i = 0; i < 3; i++) for (let j = 0; j < 3; j++) out[3 * i + j] = r[3 * i] * t[j] + r[3 * i + 1] * t[3 + j] + r[3 * i + 2] * t[6 + j];
    this.turn = out;
  }

  // What a hand does to one scene happens to all that are shown beside it.
  together(act) { for (const scene of this.peers) { scene.touched = true; act(scene); scene.draw(); } }
  zoomBy(factor) { this.together((s) => { s.zoom = Math.min(20, Math.max(0.3, s.zoom * factor)); }); }
  panBy(dx, dy) { const unit = 0.46 * Math.min(this.canvas.clientWidth, this.canvas.clientHeight); this.together((s) => { s.shift = [s.shift[0] + dx / unit, s.shift[1] - dy / unit]; }); }

  listen() {
    const held = new Map(), canvas = this.canvas;
    let moved = 0, waiting = 0;
    canvas.addEventListener("pointerdown", (e) => { moved = 0; held.set(e.pointerId, [e.clientX, e.clientY]); canvas.setPointerCapture(e.pointerId); });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (e) => { held.delete(e.pointerId); if (name === "pointerup" && moved < 4 && this.onpick) { clearTimeout(waiting); waiting = setTimeout(() => this.onpick(e), 260); } });
    canvas.addEventListener("pointermove", (e) => {
      const last = held.get(e.pointerId);
      if (!last) return this.onhover && this.onhover(e);
      const dx = e.clientX - last[0], dy = e.clientY - last[1];
      moved += Math.hypot(dx, dy);
      if (held.size === 2) {
        const [other] = [...held].filter(([id]) => id !== e.pointerId).map(([, place]) => place);
        this.zoomBy(Math.hypot(e.clientX - other[0], e.clientY - other[1]) / (Math.hypot(last[0] - other[0], last[1] - other[1]) || 1)); this.panBy(dx / 2, dy / 2);
      } else if (e.shiftKey || e.buttons === 2) this.panBy(dx, dy);
      else this.together((s) => s.rotate(dx * 0.009, dy * 0.009));
      held.set(e.pointerId, [e.clientX, e.clientY]);
    });
    canvas.addEventListener("contextmenu", (e) => e.preventDefault());
    canvas.addEventListener("pointerleave", (e) => this.onhover && this.onhover(e));
    canvas.addEventListener("wheel", (e) => { e.preventDefault(); this.zoomBy(Math.exp(-e.deltaY * 0.0012)); }, { passive: false });
    canvas.addEventListener("dblclick", () => { clearTimeout(waiting); this.together((s) => { s.turn = s.home.slice(); s.framed = s.touched = false; }); });
  }
}
