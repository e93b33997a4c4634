// What the page of a report does where scripts run: charts that answer to pointer and keys, tables that sort, runs that are
// filtered. Without it every chart is a picture and every table stands as it was written.
"use strict";
(() => {
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  /** A new element, of SVG where its parent is, with attributes, content and a parent. */
  const add = (parent, name, attributes = {}, text) => {
    const element = document.createElementNS(name === "svg" ? SPACE : parent.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  };
  const SPACE = one("svg") ? one("svg").namespaceURI : "";

  // What the reader chose, kept over the reloads of a page that is watched.
  const KEPT = "rtc-report";
  const state = { hidden: [], logarithmic: [], zoom: {}, smooth: 3, filter: "", sorted: {} };
  const watched = document.body.dataset.watch;
  try {
    if (watched) Object.assign(state, JSON.parse(sessionStorage.getItem(KEPT) || "{}"));
  } catch { /* A browser that keeps nothing begins anew. */ }
  const keep = () => {
    try {
      if (watched) sessionStorage.setItem(KEPT, JSON.stringify(state));
    } catch { /* As above. */ }
  };
  const toggle = (list, item) => {
    const at = list.indexOf(item);
    if (at < 0) list.push(item); else list.splice(at, 1);
    keep();
  };

  // ---- Numbers and axes, as in `scale.rs` ----

  const trimmed = (text) => text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  const scientific = (value) => value.toExponential(2).replace(/\.?0*e/, "e").replace("e+", "e");
  const grouped = (text) => text.replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
  const number = (value) => {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-4 || size >= 1e9)) return scientific(value);
    const digits = size >= 1000 || Number.isInteger(value) ? 0 : Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(size))));
    return grouped(trimmed(value.toFixed(digits)));
  };

  /** An axis: `place` goes from a number to a share of the axis, `value` back; `ticks` are pairs of number and text. */
  const linear = (low, high, count, round) => {
    if (high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high), 1e-300)) {
      const room = low === 0 ? 1 : 0.1 * Math.abs(low);
      [low, high] = [low - room, high + room];
    }
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * ([1, 2, 5].find((factor) => factor * power >= raw * 0.999) || 10);
    const [first, last] = [Math.floor(low / step), Math.ceil(high / step)];
    if (round) [low, high] = [first * step, last * step];
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const text = (tick) => step < 1e-4 || Math.abs(tick) >= 1e7 ? scientific(tick) : grouped(tick.toFixed(digits));
    const ticks = [];
    for (let n = first; n <= last; n++) {
      const tick = n * step;
      if (tick >= low - step * 1e-6 && tick <= high + step * 1e-6) ticks.push([tick, n === 0 ? "0" : text(tick)]);
    }
    return { ticks, low, high, place: (v) => (v - low) / (high - low), value: (p) => low + p * (high - low) };
  };
  const logarithmic = (low, high, room) => {
    if (high <= low * 1.05) [low, high] = [low / 1.5, high * 1.5];
    if (room) [low, high] = [low / 1.1, high * 1.1];
    const span = high / low, factors = span > 1e4 ? [1] : [1, 2, 5];
    let ticks = [];
    for (let decade = Math.floor(Math.log10(low)); decade <= Math.ceil(Math.log10(high)); decade++) {
      for (const factor of factors) {
        const tick = Number((factor * 10 ** decade).toPrecision(3));
        if (tick >= low && tick <= high) ticks.push([tick, number(tick)]);
      }
    }
    // Over less than a decade these would be two or three.
    if (span < 8) ticks = linear(low, high, 5, false).ticks.filter(([tick]) => tick > 0);
    const length = Math.log(span);
    return { ticks, low, high, place: (v) => Math.log(v / low) / length, value: (p) => low * Math.exp(p * length) };
  };

  /** The mean of every value and its neighbours, `reach` on each side; `null` is a gap. As in `thin.rs`. */
  const means = (values, reach) => {
    if (reach < 1) return values;
    const sums = [0], counts = [0];
    values.forEach((value, n) => {
      sums.push(sums[n] + (value === null ? 0 : value));
      counts.push(counts[n] + (value === null ? 0 : 1));
    });
    return values.map((_, n) => {
      const [from, to] = [Math.max(0, n - reach), Math.min(values.length, n + reach + 1)];
      const count = counts[to] - counts[from];
      return count ? (sums[to] - sums[from]) / count : null;
    });
  };

  // ---- Charts ----

  const COLOURS = 8;
  /** How many times as far as in the picture a moving mean reaches, by the place of the control. */
  const REACHES = [0, 0.25, 0.5, 1, 2, 4, 8];
  const [TOP, BELOW, HEIGHT] = [10, 46, 240];
  const KEYS = "Left and right go from point to point, up and down from line to line, plus and minus zoom, 0 shows all.";
  const dashes = (colour) => Math.floor(colour / COLOURS) % 2 ? " dashed" : "";
  const charts = [];
  /** The names of the runs that the filter leaves, once there is one. */
  let left = null;

  class Chart {
    constructor(figure, data, index) {
      Object.assign(this, { data, index, at: null, key: figure.dataset.name });
      figure.classList.add("live");
      const head = add(figure, "div", { class: "head" });
      add(head, "b", {}, data.title);
      const tools = add(head, "span", { class: "tools" });
      this.reset = this.button(tools, "whole range", () => this.zoom(null));
      if (!data.equal) {
        this.log = this.button(tools, "log y", () => {
          toggle(state.logarithmic, this.key);
          this.draw();
        });
      }
      this.legend(figure);
      this.plot = add(figure, "div", { class: "plot" });
      const lines = new Set(data.series.map((series) => series.run || series.name)).size;
      this.svg = add(this.plot, "svg", {
        class: "picture", role: "img", tabindex: 0, height: TOP + HEIGHT + BELOW,
        "aria-label": `${data.title}: ${data.axes[1]} by ${data.axes[0]}, ${lines} line${lines === 1 ? "" : "s"}. ${KEYS}`,
      });
      this.tip = add(this.plot, "div", { class: "tip", role: "status", hidden: "" });
      this.listen();
    }

    button(parent, text, press) {
      const button = add(parent, "button", { type: "button" }, text);
      button.addEventListener("click", press);
      return button;
    }

    legend(figure) {
      const box = add(figure, "div", { class: "legend", role: "group", "aria-label": "Shown lines" });
      this.entries = new Map();
      for (const { name, look, colour } of this.data.series) {
        if (look === "faint" || !name || this.entries.has(name)) continue;
        const button = this.button(box, "", () => {
          toggle(state.hidden, name);
          charts.forEach((chart) => chart.draw());
        });
        const sample = add(button, "svg", { class: "picture", width: 22, height: 12, "aria-hidden": "true" });
        this.mark(sample, look, colour, [11, 6]);
        add(button, "span", {}, name);
        this.entries.set(name, button);
      }
    }

    /** What stands for a line: a stroke, or a point. */
    mark(svg, look, colour, [x, y]) {
      const n = colour % COLOURS;
      if (look === "line" || look === "dots") add(svg, "path", { class: `line l${n}${dashes(colour)}`, d: `M1 ${y}H21` });
      else add(svg, "circle", { class: `${look === "rings" ? "r" : "d"}${n}`, cx: x, cy: y, r: 4 });
    }

    /** Whether a line is shown: not hidden, and of a run that the filter leaves. An entry of the legend without points stands for all marks of its look. */
    shows(series) {
      const stands = (other) => other.look === series.look && !other.x.length && state.hidden.includes(other.name);
      const fits = !left || !series.of || series.of.some((run) => left.has(run));
      return fits && !state.hidden.includes(series.name) && !this.data.series.some(stands);
    }

    /** The points of the shown lines that can be drawn, smoothed as the reader wants them. */
    lines() {
      const positive = [this.data.across === "logarithmic", this.log && state.logarithmic.includes(this.key)];
      return this.data.series.filter((series) => series.x.length && this.shows(series)).map((series) => {
        const base = Math.max(series.reach || 0, series.x.length / 50);
        const reach = series.reach === undefined ? 0
          : state.smooth === 3 ? series.reach : Math.round(base * REACHES[state.smooth]);
        const [y, spread] = [means(series.y, reach), means(series.spread || [], reach)];
        // A band stays within the values that there can be.
        const least = this.data.zero ? 0 : -Infinity, most = this.data.most === null ? Infinity : this.data.most;
        const point = (x, n) => ({
          x, y: y[n], spread: spread[n], low: Math.max(y[n] - spread[n], least), high: Math.min(y[n] + spread[n], most),
          note: series.notes && series.notes[n], series,
        });
        const drawn = (p) => p.x !== null && p.y !== null && !(positive[0] && p.x <= 0) && !(positive[1] && p.y <= 0);
        return { series, points: series.x.map(point).map((p) => drawn(p) ? p : null) };
      });
    }

    draw() {
      const { data, svg } = this, zoomed = state.zoom[this.key];
      const logarithmicUp = Boolean(this.log) && state.logarithmic.includes(this.key);
      this.width = Math.max(260, this.plot.clientWidth);
      const [left, right] = [64, 14], inner = this.width - left - right;
      this.shown = this.lines();
      const xs = data.series.flatMap((series) => series.x).filter((x) => x !== null);
      let across = [Math.min(...xs), Math.max(...xs)];
      if (data.across === "linear" && !data.equal) across[0] = Math.min(0, across[0]);
      across = zoomed ? zoomed.across : across;
      const inside = (p) => p && p.x >= across[0] && p.x <= across[1];
      const seen = this.shown.flatMap(({ points }) => points.filter(inside));
      const ends = seen.flatMap((p) => p.spread > 0 && !(logarithmicUp && p.low <= 0) ? [p.low, p.high] : [p.y]);
      for (const { at } of data.levels) if (seen.length && !(logarithmicUp && at <= 0)) ends.push(at);
      let up = ends.length ? [Math.min(...ends), Math.max(...ends)] : logarithmicUp ? [0.1, 1] : [0, 1];
      if (data.zero && !logarithmicUp) up[0] = Math.min(0, up[0]);
      if (data.equal) {
        up = zoomed ? zoomed.up : up;
        const unit = Math.max((across[1] - across[0]) / inner, (up[1] - up[0]) / HEIGHT) * (zoomed ? 1 : 1.06);
        const widened = ([low, high], side) => [-1, 1].map((sign) => (low + high) / 2 + sign * unit * side / 2);
        [across, up] = [widened(across, inner), widened(up, HEIGHT)];
      }
      const ticks = Math.max(3, Math.round(this.width / 90));
      this.across = data.across === "logarithmic" ? logarithmic(...across, !zoomed) : linear(...across, ticks, false);
      this.up = logarithmicUp ? logarithmic(...up, true) : linear(...up, 5, !data.equal);
      this.place = (x, y) => [left + this.across.place(x) * inner, TOP + (1 - this.up.place(y)) * HEIGHT];
      this.back = (x, y) => [this.across.value((x - left) / inner), this.up.value(1 - (y - TOP) / HEIGHT)];
      this.box = { left, right: left + inner };

      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${this.width} ${TOP + HEIGHT + BELOW}`);
      svg.setAttribute("width", this.width);
      this.axes();
      const clip = `clip-${this.index}`;
      add(add(svg, "clipPath", { id: clip }), "rect", { x: left, y: TOP - 4, width: inner + 5, height: HEIGHT + 8 });
      const group = add(svg, "g", { "clip-path": `url(#${clip})` });
      for (const { series, points } of this.shown) if (series.spread) this.band(group, points, series.colour);
      for (const looks of [["faint"], ["line", "dots"]]) {
        for (const { series, points } of this.shown) if (looks.includes(series.look)) this.line(group, series, points);
      }
      for (const { series, points } of this.shown) this.points(group, series, points.filter(inside));
      this.marks(group);
      this.cursor = add(svg, "g");
      if (this.at) this.show(this.shown.flatMap(({ points }) => points).find((p) =>
        p && p.series === this.at.series && p.x === this.at.x) || null);
      this.reset.hidden = !zoomed;
      if (this.log) this.log.setAttribute("aria-pressed", logarithmicUp);
      for (const [name, button] of this.entries) button.setAttribute("aria-pressed", !state.hidden.includes(name));
    }

    axes() {
      const { svg, across, up, box } = this, bottom = TOP + HEIGHT;
      for (const [tick, text] of up.ticks) {
        const y = this.place(across.low, tick)[1];
        add(svg, "path", { class: "grid", d: `M${box.left} ${y}H${box.right}` });
        add(svg, "text", { class: "tick", x: box.left - 7, y: y + 4, "text-anchor": "end" }, text);
      }
      let free = -Infinity;
      for (const [tick, text] of across.ticks) {
        const x = this.place(tick, up.low)[0], half = 3.4 * text.length;
        add(svg, "path", { class: "axis", d: `M${x} ${bottom}v4` });
        if (x - half <= free) continue;
        add(svg, "text", { class: "tick", x, y: bottom + 17, "text-anchor": "middle" }, text);
        free = x + half + 6;
      }
      add(svg, "path", { class: "axis", d: `M${box.left} ${bottom}H${box.right}` });
      const middle = (box.left + box.right) / 2, turn = [13, TOP + HEIGHT / 2];
      add(svg, "text", { class: "label", x: middle, y: bottom + 36, "text-anchor": "middle" }, this.data.axes[0]);
      add(svg, "text", { class: "label", x: turn[0], y: turn[1], "text-anchor": "middle",
        transform: `rotate(-90 ${turn})` }, this.data.axes[1]);
    }

    /** Lines that no run drew: chance, and where training ended. */
    marks(group) {
      const { across, up, box, data } = this;
      for (const { at, text } of data.levels) {
        if (at < up.low || at > up.high) continue;
        const y = this.place(across.low, at)[1];
        add(group, "path", { class: "mark", d: `M${box.left} ${y}H${box.right}` });
        add(group, "text", { class: "note over", x: box.right - 4, y: y - 5, "text-anchor": "end" }, text);
      }
      for (const { at, text } of data.ends) {
        if (at < across.low || at > across.high) continue;
        const x = this.place(at, up.low)[0], beyond = x > (box.left + box.right) / 2;
        add(group, "path", { class: "mark", d: `M${x} ${TOP}V${TOP + HEIGHT}` });
        add(group, "text", { class: "note over", x: x + (beyond ? -5 : 5), y: TOP + HEIGHT - 8,
          "text-anchor": beyond ? "end" : "start" }, text);
      }
    }

    pixel(p, y = p.y) {
      return this.place(p.x, y).map((v) => Math.round(10 * v) / 10);
    }

    /** The pieces between gaps. */
    pieces(points) {
      const out = [[]];
      for (const p of points) if (p) out.at(-1).push(p); else if (out.at(-1).length) out.push([]);
      return out.filter((piece) => piece.length);
    }

    line(group, series, points) {
      const d = this.pieces(points).map((piece) => "M" + piece.map((p) => this.pixel(p).join(" ")).join("L")).join("");
      const n = series.colour % COLOURS;
      const class_ = series.look === "faint" ? `faint l${n}` : `line l${n}${dashes(series.colour)}`;
      add(group, "path", { class: class_, d });
    }

    band(group, points, colour) {
      const low = (p) => Math.max(p.low, this.up.low);
      for (const piece of this.pieces(points)) {
        const edge = [...piece.map((p) => this.pixel(p, p.high)), ...piece.map((p) => this.pixel(p, low(p))).reverse()];
        add(group, "path", { class: `band b${colour % COLOURS}`, d: `M${edge.map((p) => p.join(" ")).join("L")}Z` });
      }
    }

    points(group, { look, colour }, points) {
      const sizes = { dots: 3.2, cloud: 2.6, discs: 4, rings: 6.5 };
      // So many discs in a row are a thicker line.
      if (!(look in sizes) || (look === "dots" && points.length > 150)) return;
      for (const p of points) {
        const [cx, cy] = this.pixel(p);
        add(group, "circle", { class: `${look === "rings" ? "r" : "d"}${colour % COLOURS}`, cx, cy, r: sizes[look] });
      }
    }

    /** Says what a point is. */
    show(p) {
      this.at = p;
      this.cursor.replaceChildren();
      this.tip.hidden = !p;
      if (!p) return;
      const [x, y] = this.pixel(p), [what, much] = this.data.axes;
      add(this.cursor, "circle", { class: `r${p.series.colour % COLOURS} found`, cx: x, cy: y, r: 6 });
      this.tip.replaceChildren();
      add(this.tip, "b", {}, p.series.run || p.series.name || this.data.title);
      add(this.tip, "span", {}, `${what}: ${number(p.x)}`);
      add(this.tip, "span", {}, `${much}: ${number(p.y)}${p.spread > 0 ? ` ± ${number(p.spread)}` : ""}`);
      if (p.note) add(this.tip, "span", {}, p.note);
      const scale = this.svg.clientWidth / this.width, wide = this.tip.offsetWidth;
      const side = x * scale + 14 + wide > this.plot.clientWidth ? x * scale - 14 - wide : x * scale + 14;
      this.tip.style.left = `${Math.max(0, side)}px`;
      this.tip.style.top = `${Math.max(0, Math.min(y * scale - 20, TOP + HEIGHT - this.tip.offsetHeight))}px`;
    }

    /** The nearest point of the nearest line. */
    nearest(x, y, within = Infinity) {
      let [best, least] = [null, within * within];
      for (const { points } of this.shown) {
        for (const p of points) {
          if (!p || p.x < this.across.low || p.x > this.across.high) continue;
          const [px, py] = this.place(p.x, p.y), far = (px - x) ** 2 + (py - y) ** 2;
          if (far < least) [best, least] = [p, far];
        }
      }
      return best;
    }

    zoom(range) {
      if (range) state.zoom[this.key] = range; else delete state.zoom[this.key];
      keep();
      this.draw();
    }

    /** Shows a stretch around the point that is told, or around the middle. */
    closer(factor) {
      const { across, up } = this, middle = this.at || { x: across.value(0.5), y: up.value(0.5) };
      const around = (axis, v) => {
        const at = Math.min(1, Math.max(0, axis.place(v)));
        return [axis.value(at - at * factor), axis.value(at + (1 - at) * factor)];
      };
      this.zoom({ across: around(across, middle.x), up: around(up, middle.y) });
    }

    listen() {
      const { svg } = this;
      const point = (event) => {
        const box = svg.getBoundingClientRect(), scale = this.width / box.width;
        return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
      };
      let from = null, band = null;
      svg.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        from = point(event);
        // What a finger finds stays when it is lifted.
        svg.focus({ preventScroll: true });
        svg.setPointerCapture(event.pointerId);
      });
      svg.addEventListener("pointermove", (event) => {
        const [x, y] = point(event);
        if (!from) return this.show(this.nearest(x, y));
        if (!band && Math.abs(x - from[0]) > 5) band = add(svg, "rect", { class: "selection" });
        if (!band) return;
        const [top, bottom] = this.data.equal ? [Math.min(y, from[1]), Math.max(y, from[1])] : [TOP, TOP + HEIGHT];
        const box = { x: Math.min(x, from[0]), width: Math.abs(x - from[0]), y: top, height: bottom - top };
        for (const [key, value] of Object.entries(box)) band.setAttribute(key, value);
      });
      const end = (event) => {
        if (band && from && event.type === "pointerup") {
          const ends = [from, point(event)].map(([x, y]) =>
            this.back(Math.min(this.box.right, Math.max(this.box.left, x)), Math.min(TOP + HEIGHT, Math.max(TOP, y))));
          const [across, up] = [0, 1].map((n) => ends.map((v) => v[n]).sort((a, b) => a - b));
          if (across[1] > across[0]) this.zoom({ across, up });
        } else if (from && event.type === "pointerup") {
          this.show(this.nearest(...from));
        }
        if (band) band.remove();
        [from, band] = [null, null];
      };
      svg.addEventListener("pointerup", end);
      svg.addEventListener("pointercancel", end);
      svg.addEventListener("pointerleave", () => { if (document.activeElement !== svg) this.show(null); });
      svg.addEventListener("blur", () => this.show(null));
      svg.addEventListener("dblclick", () => this.zoom(null));
      svg.addEventListener("keydown", (event) => this.press(event));
    }

    press(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const inside = (p) => p && p.x >= this.across.low && p.x <= this.across.high;
      const lines = this.shown.map(({ points }) => points.filter(inside)).filter((points) => points.length);
      if (!lines.length && !["0", "Escape", "-"].includes(event.key)) return;
      const line = this.at ? lines.findIndex((points) => points.includes(this.at)) : -1;
      const along = (step) => {
        if (line < 0) return this.show(lines[0][0]);
        const points = lines[line], at = points.indexOf(this.at) + step;
        this.show(points[Math.min(points.length - 1, Math.max(0, at))]);
      };
      const over = (step) => {
        if (line < 0) return this.show(lines[0][0]);
        const next = lines[(line + step + lines.length) % lines.length], far = (p) => Math.abs(p.x - this.at.x);
        this.show(next.reduce((best, p) => far(p) < far(best) ? p : best));
      };
      const does = {
        ArrowLeft: () => along(-1), ArrowRight: () => along(1), ArrowUp: () => over(-1), ArrowDown: () => over(1),
        PageUp: () => along(-10), PageDown: () => along(10), Home: () => along(-Infinity), End: () => along(Infinity),
        Escape: () => this.show(null), "+": () => this.closer(0.5), "=": () => this.closer(0.5),
        "-": () => this.closer(2), 0: () => this.zoom(null),
      }[event.key];
      if (!does) return;
      event.preventDefault();
      does();
    }
  }

  for (const [index, script] of all("figure > script").entries()) {
    charts.push(new Chart(script.parentNode, JSON.parse(script.textContent), index));
  }
  charts.forEach((chart) => chart.draw());
  let width = document.body.clientWidth;
  addEventListener("resize", () => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    charts.forEach((chart) => chart.draw());
  });

  // ---- Smoothing ----

  if (charts.some(({ data }) => data.series.some(({ reach }) => reach !== undefined))) {
    const label = document.createElement("label");
    one("#training").after(label);
    label.className = "control";
    label.textContent = "Smoothing of training curves ";
    const input = add(label, "input", { type: "range", min: 0, max: REACHES.length - 1, step: 1 });
    input.value = state.smooth;
    const said = add(label, "output");
    const say = () => {
      const times = REACHES[state.smooth], text = times === 1 ? "as usual" : times ? `${times} times the usual` : "none";
      said.textContent = text;
      input.setAttribute("aria-valuetext", text);
    };
    say();
    input.addEventListener("input", () => {
      state.smooth = Number(input.value);
      keep();
      say();
      charts.forEach((chart) => chart.draw());
    });
  }

  // ---- Tables ----

  /** What a cell is sorted by: its number if it begins with one, else its text; what is not there comes last. */
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const found = /^[-+]?[\d,]*\.?\d+(e[-+]?\d+)?/i.exec(text);
    return text === "-" || text === "" ? null : found ? Number(found[0].replaceAll(",", "")) : text;
  };
  const compare = (a, b) => a === null || b === null ? (a === null) - (b === null)
    : typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));

  all("table:not(.still)").forEach((table, index) => {
    const head = table.tHead && table.tHead.rows[0], body = table.tBodies[0];
    if (!head || body.rows.length < 2) return;
    const written = [...body.rows];
    const sort = () => {
      const { column, order } = state.sorted[index] || {};
      const rows = [...written];
      if (order) {
        const keys = new Map(rows.map((row) => [row, value(row, column)]));
        const absent = (row) => keys.get(row) === null;
        // What is not there stays at the end in either order.
        rows.sort((a, b) => absent(a) || absent(b) ? absent(a) - absent(b)
          : (order === "descending" ? -1 : 1) * compare(keys.get(a), keys.get(b)));
      }
      body.append(...rows);
      [...head.cells].forEach((cell, n) => cell.setAttribute("aria-sort", order && n === column ? order : "none"));
    };
    [...head.cells].forEach((cell, column) => {
      const text = cell.textContent;
      if (!text) return;
      cell.textContent = "";
      add(cell, "button", { type: "button" }, text).addEventListener("click", () => {
        const { column: last, order } = state.sorted[index] || {};
        const next = last !== column ? "ascending" : { ascending: "descending", descending: "" }[order] ?? "ascending";
        state.sorted[index] = { column, order: next };
        keep();
        sort();
      });
    });
    sort();
  });

  // ---- The filter of runs ----

  const runs = all("#runs ~ .wide tbody tr"), told = all("details.run");
  if (runs.length > 1) {
    const label = document.createElement("label");
    one("#runs").after(label);
    label.className = "control";
    label.textContent = "Filter ";
    const input = add(label, "input", { type: "search", placeholder: "words of a run" });
    const count = add(label, "output");
    const apply = () => {
      const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = (text) => words.every((word) => text.toLowerCase().includes(word));
      runs.forEach((row) => { row.hidden = !fits(row.textContent); });
      const names = new Set(runs.filter((row) => !row.hidden).map((row) => row.cells[0].textContent));
      left = names;
      charts.forEach((chart) => chart.draw());
      told.forEach((run) => { run.hidden = !names.has(one("summary", run).textContent); });
      count.textContent = words.length ? `${names.size} of ${runs.length} runs` : "";
    };
    input.value = state.filter;
    input.addEventListener("input", () => {
      state.filter = input.value;
      keep();
      apply();
    });
    apply();
  }

  // ---- A page that `rtc report --watch` serves ----

  if (watched) {
    const said = one(".watch"), folded = all("details");
    (state.open || []).forEach((open, n) => { if (folded[n] && state.open.length === folded.length) folded[n].open = open; });
    const ask = async () => {
      try {
        const answer = await fetch("version", { cache: "no-store" });
        // Nothing is taken away from who reads a point.
        if (answer.ok && await answer.text() !== watched && !charts.some((chart) => chart.at)) {
          state.open = folded.map((details) => details.open);
          keep();
          return location.reload();
        }
        said.textContent = "This page follows the records of its runs.";
      } catch {
        said.textContent = "Nobody serves this page any more: it shows what there was last.";
      }
      setTimeout(ask, 1000);
    };
    setTimeout(ask, 1000);
  }
})();
