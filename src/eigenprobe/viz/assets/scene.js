// A shape to turn: WebGL 2 where there is one, a sorted canvas where there is not. Both light the surface as viz/raster.py does.
const EYE = 5.0; // distance of the eye in units of the shape's radius

const VERTEX = `#version 300 es
in vec3 position; in vec3 normal; in float value; in float size;
uniform mat3 turn; uniform vec2 scale; uniform float zoom, pixels; uniform vec2 shift;
out float v; out vec3 n; out float depth; out float disc;
void main() {
  vec3 y = turn * position; float w = 1.0 - y.z / ${EYE.toFixed(1)};
  gl_Position = vec4((y.xy * zoom + shift * w) * scale, (-y.z / 4.0) * w, w);
  gl_PointSize = max(2.0, 2.0 * size * zoom * pixels / w);
  v = value; n = turn * normal; depth = y.z; disc = size;
}`;

const FRAGMENT = `#version 300 es
precision highp float;
in float v; in vec3 n; in float depth; in float disc;
uniform sampler2D ramp; uniform bool points, lines; uniform vec3 plain; uniform float flatness;
out vec4 colour;
void main() {
  vec3 m = n; float z = depth;
  if (points) {
    vec2 o = gl_PointCoord * 2.0 - 1.0; o.y = -o.y;
    if (dot(m, m) > 0.25) {
      m = m.z < 0.0 ? -m : m;
      float rise = -dot(m.xy, o) / max(m.z, 0.25);
      if (dot(o, o) + rise * rise > 1.0) discard;
      z += rise * disc + 0.25 * disc * (1.0 - dot(o, o));
    } else {
      float r = dot(o, o); if (r > 1.0) discard;
      m = vec3(o, sqrt(1.0 - r)); z += m.z * disc;
    }
  }
  gl_FragDepth = clamp(0.5 - z / 8.0, 0.0, 1.0);
  m = normalize(m); if (m.z < 0.0) m = -m;
  float key = max(dot(m, vec3(-0.421, 0.608, 0.673)), 0.0), fill = max(dot(m, vec3(0.704, 0.100, 0.704)), 0.0);
  float shade = (0.50 + 0.44 * key + 0.12 * fill) * mix(0.86, 1.0, smoothstep(-1.0, 0.4, depth)) * mix(0.72, 1.0, smoothstep(0.0, 0.45, m.z));
  vec3 base = plain.x < 0.0 ? texture(ramp, vec2(clamp(v, 0.0, 1.0) * 0.996 + 0.002, 0.5)).rgb : plain;
  vec3 lit = base * shade + 0.10 * max(shade - 0.97, 0.0);
  if (lines) {
    float t = (v - 0.5) * 8.0, width = max(fwidth(t), 1e-5);
    float near = abs(t - round(t)) / width, nodal = abs(t) / width;
    lit *= 1.0 - 0.22 * (1.0 - smoothstep(0.3, 1.1, near)) * step(width, 0.6) - 0.35 * (1.0 - smoothstep(0.8, 1.8, nodal)) * step(width, 2.0);
  }
  colour = vec4(lit, 1.0);
}`;

class Scene {
  constructor(canvas, shape) {
    Object.assign(this, { canvas, shape, zoom: 1, shift: [0, 0], plain: null, lines: false });
    this.positions = shape.positions; this.home = shape.turn.slice(); this.turn = shape.turn.slice();
    this.values = new Float32Array(shape.n).fill(0.5); this.ramp = null;
    this.gl = canvas.getContext("webgl2", { antialias: true, preserveDrawingBuffer: true });
    if (this.gl) this.prepare(); else this.context = canvas.getContext("2d");
    this.move(shape.positions); this.listen();
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  prepare() {
    const gl = this.gl, program = gl.createProgram();
    for (const [type, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(type);
      gl.shaderSource(shader, source); gl.compileShader(shader); gl.attachShader(program, shader);
    }
    gl.linkProgram(program); gl.useProgram(program); gl.enable(gl.DEPTH_TEST);
    this.at = (name) => gl.getUniformLocation(program, name);
    this.buffers = {};
    for (const [name, width] of [["position", 3], ["normal", 3], ["value", 1], ["size", 1]]) {
      const place = gl.getAttribLocation(program, name), buffer = (this.buffers[name] = gl.createBuffer());
      if (place < 0) continue;
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer); gl.enableVertexAttribArray(place); gl.vertexAttribPointer(place, width, gl.FLOAT, false, 0, 0);
    }
    this.fill("size", this.shape.sizes);
    if (this.shape.faces) { gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer()); gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, this.shape.faces, gl.STATIC_DRAW); }
    gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
    for (const [key, mode] of [[gl.TEXTURE_MIN_FILTER, gl.LINEAR], [gl.TEXTURE_MAG_FILTER, gl.LINEAR], [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE], [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE]]) gl.texParameteri(gl.TEXTURE_2D, key, mode);
  }

  fill(name, data) { const gl = this.gl; gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]); gl.bufferData(gl.ARRAY_BUFFER, data, gl.DYNAMIC_DRAW); }

  // Coordinates change (reconstruction): normals follow them on a mesh, and are the given ones on a cloud.
  move(positions) {
    this.positions = positions;
    const { n, faces } = this.shape, x = positions;
    let normals = positions === this.shape.positions || !faces ? this.shape.normals : null;
    if (faces && !normals) {
      normals = new Float32Array(3 * n);
      for (let f = 0; f < faces.length; f += 3) {
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
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGB8, ramp.length / 3, 1, 0, gl.RGB, gl.UNSIGNED_BYTE, ramp);
    }
    this.draw();
  }

  draw() { if (!this.pending) this.pending = requestAnimationFrame(() => { this.pending = 0; this.render(); }); }

  fit() {
    const ratio = Math.min(devicePixelRatio || 1, 2), w = Math.round(this.canvas.clientWidth * ratio), h = Math.round(this.canvas.clientHeight * ratio);
    if (this.canvas.width !== w || this.canvas.height !== h) { this.canvas.width = w; this.canvas.height = h; }
    return [w, h, 0.46 * Math.min(w, h)];
  }

  render() {
    const [w, h, unit] = this.fit();
    if (!w || !h || !this.ramp) return;
    if (!this.framed) this.frame(w, h, unit);
    if (!this.gl) return this.renderSorted(w, h, unit);
    const gl = this.gl, t = this.turn;
    gl.viewport(0, 0, w, h); gl.clearColor(0, 0, 0, 0); gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix3fv(this.at("turn"), true, t); gl.uniform2f(this.at("scale"), (2 * unit) / w, (2 * unit) / h);
    gl.uniform1f(this.at("zoom"), this.zoom); gl.uniform1f(this.at("pixels"), unit); gl.uniform2f(this.at("shift"), ...this.shift);
    gl.uniform1i(this.at("points"), this.shape.faces ? 0 : 1); gl.uniform1i(this.at("lines"), this.lines ? 1 : 0);
    gl.uniform3f(this.at("plain"), ...(this.plain || [-1, -1, -1]));
    if (this.shape.faces) gl.drawElements(gl.TRIANGLES, this.shape.faces.length, this.shape.faces.BYTES_PER_ELEMENT === 4 ? gl.UNSIGNED_INT : gl.UNSIGNED_SHORT, 0);
    else gl.drawArrays(gl.POINTS, 0, this.shape.n);
  }

  // Fill the canvas with the shape as it is first seen.
  frame(w, h, unit) {
    this.framed = true; this.zoom = 1; this.shift = [0, 0];
    const p = this.project(w, h, unit), low = [Infinity, Infinity], high = [-Infinity, -Infinity];
    for (let i = 0; i < p.length; i += 3) for (let a = 0; a < 2; a++) { low[a] = Math.min(low[a], p[i + a]); high[a] = Math.max(high[a], p[i + a]); }
    this.zoom = Math.min(3, 0.88 * Math.min(w / (high[0] - low[0] + 1), h / (high[1] - low[1] + 1)));
    this.shift = [(this.zoom * (w - low[0] - high[0])) / 2 / unit, (this.zoom * (low[1] + high[1] - h)) / 2 / unit];
  }

  project(w, h, unit) {
    const { n } = this.shape, x = this.positions, t = this.turn, out = new Float32Array(3 * n);
    for (let i = 0; i < 3 * n; i += 3) {
      const z = t[6] * x[i] + t[7] * x[i + 1] + t[8] * x[i + 2], s = (unit * this.zoom) / (1 - z / EYE);
      out[i] = w / 2 + unit * this.shift[0] + s * (t[0] * x[i] + t[1] * x[i + 1] + t[2] * x[i + 2]);
      out[i + 1] = h / 2 - unit * this.shift[1] - s * (t[3] * x[i] + t[4] * x[i + 1] + t[5] * x[i + 2]); out[i + 2] = z;
    }
    return out;
  }

  renderSorted(w, h, unit) {
    const pen = this.context, { n, faces, sizes } = this.shape, t = this.turn, p = this.project(w, h, unit);
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
      else pen.arc(p[3 * i], p[3 * i + 1], Math.max(1, 0.7 * sizes[i] * unit * this.zoom), 0, 6.3);
      pen.fill();
    }
  }

  // The nearest point to the eye within a few pixels of the pointer, or -1.
  pick(clientX, clientY) {
    const box = this.canvas.getBoundingClientRect(), [w, h, unit] = this.fit(), p = this.project(w, h, unit);
    const x = ((clientX - box.left) * w) / box.width, y = ((clientY - box.top) * h) / box.height, reach = 0.02 * unit + 6;
    let best = -1, score = -Infinity;
    for (let i = 0; i < this.shape.n; i++) {
      const d = Math.hypot(p[3 * i] - x, p[3 * i + 1] - y);
      if (d < reach && p[3 * i + 2] - (0.3 * d) / reach > score) { best = i; score = p[3 * i + 2] - (0.3 * d) / reach; }
    }
    return best;
  }

  rotate(dx, dy) {
    const [a, b] = [dx, dy], ca = Math.cos(a), sa = Math.sin(a), cb = Math.cos(b), sb = Math.sin(b);
    const r = [ca, 0, sa, sb * sa, cb, -sb * ca, -cb * sa, sb, cb * ca], t = this.turn, out = new Array(9);
    for (let i = 0; i < 3; i++) for (let j = 0; j < 3; j++) out[3 * i + j] = r[3 * i] * t[j] + r[3 * i + 1] * t[3 + j] + r[3 * i + 2] * t[6 + j];
    this.turn = out; this.draw();
  }

  listen() {
    const held = new Map(), canvas = this.canvas;
    canvas.addEventListener("pointerdown", (e) => { held.set(e.pointerId, [e.clientX, e.clientY]); canvas.setPointerCapture(e.pointerId); });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (e) => held.delete(e.pointerId));
    canvas.addEventListener("pointermove", (e) => {
      const last = held.get(e.pointerId);
      if (!last) return this.onhover && this.onhover(e);
      const dx = e.clientX - last[0], dy = e.clientY - last[1];
      if (held.size === 2) {
        const [other] = [...held].filter(([id]) => id !== e.pointerId).map(([, place]) => place);
        this.zoom *= Math.hypot(e.clientX - other[0], e.clientY - other[1]) / (Math.hypot(last[0] - other[0], last[1] - other[1]) || 1); this.draw();
      } else if (e.shiftKey || e.buttons === 2) { const unit = 0.46 * Math.min(canvas.clientWidth, canvas.clientHeight); this.shift = [this.shift[0] + dx / unit, this.shift[1] - dy / unit]; this.draw(); }
      else this.rotate(dx * 0.009, dy * 0.009);
      held.set(e.pointerId, [e.clientX, e.clientY]);
    });
    canvas.addEventListener("contextmenu", (e) => e.preventDefault());
    canvas.addEventListener("pointerleave", (e) => this.onhover && this.onhover(e));
    canvas.addEventListener("wheel", (e) => { e.preventDefault(); this.zoom = Math.min(20, Math.max(0.3, this.zoom * Math.exp(-e.deltaY * 0.0012))); this.draw(); }, { passive: false });
    canvas.addEventListener("dblclick", () => { this.turn = this.home.slice(); this.framed = false; this.draw(); });
  }
}
