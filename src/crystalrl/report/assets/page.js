// Draws the charts of a page and makes its tables usable. Plain SVG; needs no other file.
(() => {
  "use strict";
  const root = document, home = document.body;
  const specs = JSON.parse(root.querySelector("script.charts").textContent);
  const NS = "http://www.w3.org/2000/svg";
  const RAMP = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
  const DIVERGING = ["#b2182b", "#d6604d", "#f4a582", "#fddbc7", "#f7f7f7", "#d1e5f0", "#92c5de", "#4393c3", "#2166ac"];
  const OWN = { liquid: "var(--liquid)", glass: "var(--glass)", crystal: "var(--crystal)" };
  const decoded = new Map();

  function column(spec, name) {
    const key = spec.name + "/" + name + "/" + specs.indexOf(spec);
    if (!decoded.has(key)) {
      const raw = spec.data[name];
      decoded.set(key, !raw ? null : Array.isArray(raw) ? raw : raw.at.map((i) => raw.words[i]));
    }
    return decoded.get(key);
  }
  function el(name, attributes, parent, text) {
    const made = document.createElementNS(NS, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }
  function html(name, attributes, parent, text) {
    const made = document.createElement(name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }
  const distinct = (values) => [...new Set(values)];
  const known = (v) => v !== null && v !== undefined && !Number.isNaN(v);
  function short(v) {
    if (!known(v)) return "–";
    if (typeof v !== "number") return String(v);
    const a = Math.abs(v);
    if (a >= 1e6) return v.toExponential(2);
    if (Number.isInteger(v)) return v.toLocaleString("en");
    return a >= 100 ? v.toFixed(1) : a >= 0.0995 ? v.toFixed(3) : Number(v.toPrecision(3)).toString();
  }
  function extent(values, wide) {
    let low = Infinity, high = -Infinity;
    for (const v of values) if (known(v)) { if (v < low) low = v; if (v > high) high = v; }
    if (low > high) { low = 0; high = 1; }
    if (low === high) { low -= wide; high += wide; }
    return [low, high];
  }
  function ticks(low, high, count, whole) {
    const raw = Math.max((high - low) / Math.max(count, 1), whole ? 1 : 0), power = 10 ** Math.floor(Math.log10(raw));
    const steps = [0.5, 1, 2, 5, 10].map((m) => m * power), k = Math.max(1, steps.findIndex((step) => step >= raw * (1 - 1e-9)));
    const at = (step) => {
      const out = [];
      for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) out.push(Math.abs(v) < step * 1e-9 ? 0 : v);
      return out;
    };
    const found = at(steps[k]);
    return found.length < 2 && !(whole && steps[k - 1] < 1) ? at(steps[k - 1]) : found;  // one number alone is no scale
  }
  function ramp(stops, t) {
    const at = Math.min(Math.max(t, 0), 1) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2), f = at - i;
    const part = (hex, k) => parseInt(hex.slice(1 + 2 * k, 3 + 2 * k), 16);
    const mixed = [0, 1, 2].map((k) => Math.round(part(stops[i], k) * (1 - f) + part(stops[i + 1], k) * f));
    return "rgb(" + mixed.join(",") + ")";
  }

  function gradient(place, range, stops) {
    html("span", {}, place, short(range[0]) + " ");
    html("b", { style: "display:inline-block;width:9em;height:.7em;background:linear-gradient(90deg," + stops.join(",") + ")" }, place);
    html("span", {}, place, " " + short(range[1]));
  }

  // What is shown: rows of a study that were switched off, and whether single seeds are drawn.
  const studyOf = (figure) => figure.closest("[data-study]");
  function rowsOf(figure) {
    const study = studyOf(figure);
    return study && study.dataset.rows ? JSON.parse(study.dataset.rows) : [];
  }
  const hidden = (figure) => {
    const study = studyOf(figure);
    const boxes = study ? [...study.querySelectorAll(".rows input[data-row]")] : [];
    return new Set(boxes.filter((box) => !box.checked).map((box) => box.dataset.row));
  };
  const fitted = (figure) => figure.querySelector("[data-fit]:checked") !== null;
  function colourOf(spec, figure, row) {
    if (spec.options.own && OWN[row]) return OWN[row];
    const names = rowsOf(figure);
    let place = spec.options.own ? -1 : names.indexOf(row);
    if (place < 0 && !spec.options.own) place = names.findIndex((name) => name.startsWith(row + " "));  // with the chosen value
    if (place < 0) place = distinct(column(spec, "row") || column(spec, "panel") || []).indexOf(row);
    return "var(--r" + (((place % 10) + 10) % 10) + ")";
  }
  function dashOf(spec, figure, row) {
    const place = rowsOf(figure).indexOf(row);
    return place >= 20 ? "2 3" : place >= 10 ? "6 3" : "";
  }

  const tip = html("div", { class: "tip hidden", role: "status", "aria-live": "polite" }, home);
  function showTip(lines, x, y) {
    tip.replaceChildren();
    for (const [text, colour] of lines) {
      const line = html("div", {}, tip);
      if (colour) html("b", { style: "background:" + colour }, line);
      line.append(text);
    }
    tip.classList.remove("hidden");
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
    tip.style.top = Math.max(4, y + 14 + box.height > innerHeight ? y - box.height - 10 : y + 14) + "px";
  }
  const hideTip = () => tip.classList.add("hidden");

  // A frame with axes; returns the scales. Numbers of very different sizes get a logarithmic axis, if the chart allows it.
  function frame(svg, box, spec, xs, ys, words, whole) {
    const log = spec.options.free && !spec.options.linear && xs[0] > 0 && xs[1] / xs[0] > 20, unit = log ? Math.log10 : (v) => v;
    const sx = (v) => box.left + ((unit(v) - unit(xs[0])) / (unit(xs[1]) - unit(xs[0]))) * (box.right - box.left);
    const sy = (v) => box.bottom - ((v - ys[0]) / (ys[1] - ys[0])) * (box.bottom - box.top);
    const decades = (low, high) => { const out = []; for (let e = Math.ceil(Math.log10(low) - 1e-9); e <= Math.log10(high) + 1e-9; e++) out.push(10 ** e); return out; };
    for (const t of log ? decades(xs[0], xs[1]) : ticks(xs[0], xs[1], Math.max(2, (box.right - box.left) / 70), whole)) {
      el("line", { class: "grid", x1: sx(t), x2: sx(t), y1: box.top, y2: box.bottom }, svg);
      el("text", { class: "dim", x: sx(t), y: box.bottom + 13, "text-anchor": "middle" }, svg, tickText(t));
    }
    for (const t of words ? [] : ticks(ys[0], ys[1], Math.max(2, (box.bottom - box.top) / 40))) {
      el("line", { class: "grid", x1: box.left, x2: box.right, y1: sy(t), y2: sy(t) }, svg);
      el("text", { class: "dim", x: box.left - 5, y: sy(t) + 4, "text-anchor": "end" }, svg, tickText(t));
    }
    for (const at of spec.starts) if (at > xs[0] && at < xs[1]) el("line", { class: "start", x1: sx(at), x2: sx(at), y1: box.top, y2: box.bottom }, svg);
    labels(svg, box, spec);
    return [sx, sy];
  }
  function tickText(v) {
    const a = Math.abs(v);
    if (a >= 1e6) return Number((v / 1e6).toPrecision(4)) + " M";
    if (a >= 1e4) return Number((v / 1e3).toPrecision(4)) + " k";
    return Number(v.toPrecision(6)).toString();
  }
  function labels(svg, box, spec) {
    el("text", { x: (box.left + box.right) / 2, y: box.bottom + 28, "text-anchor": "middle" }, svg, spec.x);
    if (spec.y) {
      const label = el("text", { x: 11, y: (box.top + box.bottom) / 2, "text-anchor": "middle" }, svg, spec.y);
      label.setAttribute("transform", "rotate(-90 11 " + (box.top + box.bottom) / 2 + ")");
    }
  }
  function groups(spec, figure, panel, gone) {
    const rows = column(spec, "row"), panels = column(spec, "panel"), seeds = column(spec, "seed");
    const out = new Map();
    for (let i = 0; i < rows.length; i++) {
      if (panels[i] !== panel || gone.has(rows[i])) continue;
      const key = rows[i] + "\u0000" + (seeds ? seeds[i] : -1);
      if (!out.has(key)) out.set(key, { row: rows[i], seed: seeds ? seeds[i] : -1, at: [] });
      out.get(key).at.push(i);
    }
    return [...out.values()];
  }
  function path(points) {
    let d = "", pen = false;
    for (const [x, y] of points) {
      if (!known(x) || !known(y)) { pen = false; continue; }
      d += (pen ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1);
      pen = true;
    }
    return d;
  }

  function drawLines(svg, box, spec, figure, panel) {
    const gone = hidden(figure), X = column(spec, "x"), Y = column(spec, "y"), L = column(spec, "low"), H = column(spec, "high");
    const all = groups(spec, figure, panel, gone), means = all.filter((g) => g.seed < 0);
    const singles = figure.querySelector("[data-seeds]"), withSeeds = singles && singles.checked;
    const free = spec.options.free || fitted(figure), chosen = free ? means : groups(spec, figure, panel, new Set());
    const xs = extent(chosen.flatMap((g) => g.at.map((i) => X[i])), 0.5);
    const counts = spec.options.counts;
    let ys = spec.limits && !fitted(figure) && !spec.options.free ? spec.limits : extent(chosen.flatMap((g) => g.at.flatMap((i) => [Y[i], L[i], H[i]])), 0.1);
    if (counts) ys = [0, ys[1] > 0.1 || ys[0] > -0.1 ? ys[1] : 1];
    const whole = spec.options.whole || chosen.every((g) => g.at.every((i) => Number.isInteger(X[i])));
    const [sx, sy] = frame(svg, box, spec, xs, ys[0] === ys[1] ? [ys[0] - 1, ys[1] + 1] : ys, false, whole);
    const faint = means.length > 8 ? 0.06 : 0.14;
    for (const g of means) {
      const colour = colourOf(spec, figure, g.row), band = g.at.filter((i) => known(L[i]) && known(H[i]));
      if (band.length > 1) el("path", { d: path([...band.map((i) => [sx(X[i]), sy(H[i])]), ...band.reverse().map((i) => [sx(X[i]), sy(L[i])])]) + "Z", fill: colour, opacity: faint, "data-row": g.row }, svg);
      if (spec.options.dots) for (const i of g.at) if (known(L[i])) el("line", { x1: sx(X[i]), x2: sx(X[i]), y1: sy(L[i]), y2: sy(H[i]), stroke: colour, opacity: 0.5 }, svg);
    }
    const dots = (g, size) => { for (const i of g.at) if (known(Y[i])) el("circle", { cx: sx(X[i]), cy: sy(Y[i]), r: size, fill: colourOf(spec, figure, g.row), "data-row": g.row }, svg); };
    for (const g of withSeeds ? all : means) {
      if (g.row === spec.options.marked) continue;
      const colour = colourOf(spec, figure, g.row), single = g.seed >= 0;
      const line = el("path", { d: path(g.at.map((i) => [sx(X[i]), sy(Y[i])])), fill: "none", stroke: colour, "stroke-width": single ? 0.6 : 1.7, opacity: single ? 0.45 : 1, "stroke-dasharray": dashOf(spec, figure, g.row), "data-row": g.row, "data-seed": g.seed }, svg);
      if (g.at.length === 1 || spec.options.dots) dots(g, 3);
      if (single) line.classList.add("seed");
    }
    for (const g of means) if (g.row === spec.options.marked) dots(g, 2);
    const places = distinct(means.flatMap((g) => g.at.map((i) => X[i]))).sort((a, b) => a - b);
    const mark = el("line", { class: "start hidden", y1: box.top, y2: box.bottom }, svg);
    let pointer = null;
    return {
      count: places.length,
      near: (px, py) => { pointer = py; return nearest(places.map(sx), px); },
      tell: (k) => {
        mark.classList.remove("hidden");
        mark.setAttribute("x1", sx(places[k])); mark.setAttribute("x2", sx(places[k]));
        const found = means.map((g) => [g, g.at.find((i) => X[i] === places[k])]).filter(([, i]) => i !== undefined && known(Y[i]));
        found.sort((a, b) => Y[b[1]] - Y[a[1]]);
        const closest = pointer === null ? -1 : nearest(found.map(([, i]) => sy(Y[i])), pointer);
        pointer = null;
        light(svg, closest < 0 || found.length < 2 ? null : found[closest][0].row);
        const lines = found.slice(0, 24).map(([g, i]) => [(g.row || spec.y) + ": " + short(Y[i]) + (known(L[i]) ? " [" + short(L[i]) + ", " + short(H[i]) + "]" : ""), colourOf(spec, figure, g.row)]);
        return [[(panel ? panel + ", " : "") + spec.x + " " + short(places[k])], ...lines];
      },
      at: (k) => [sx(places[k]), box.top],
      leave: () => { mark.classList.add("hidden"); light(svg, null); },
    };
  }
  function light(scope, row) {
    for (const one of scope.querySelectorAll("svg [data-row], path[data-row]")) one.classList.toggle("faint", row !== null && one.dataset.row !== row);
  }
  function nearest(places, at) {
    let best = -1, least = Infinity;
    places.forEach((p, i) => { const d = Math.abs(p - at); if (d < least) { least = d; best = i; } });
    return best;
  }

  function drawAreas(svg, box, spec, figure, panel) {
    const X = column(spec, "x"), Y = column(spec, "y"), all = groups(spec, figure, panel, new Set());
    const places = distinct(all.flatMap((g) => g.at.map((i) => X[i]))).sort((a, b) => a - b);
    const value = all.map((g) => { const m = new Map(g.at.map((i) => [X[i], Y[i]])); return places.map((x) => m.get(x) ?? 0); });
    const total = places.map((_, k) => value.reduce((sum, one) => sum + (one[k] || 0), 0));
    const top = spec.limits ? spec.limits[1] : Math.max(...total, 1e-9), whole = places.every(Number.isInteger);
    const [sx, sy] = frame(svg, box, spec, extent(places, 0.5), [0, top], false, whole);
    let base = places.map(() => 0);
    all.forEach((g, n) => {
      const top = base.map((b, k) => b + (value[n][k] || 0));
      const edge = [...places.map((x, k) => [sx(x), sy(top[k])]), ...places.map((x, k) => [sx(x), sy(base[k])]).reverse()];
      el("path", { d: path(edge) + "Z", fill: colourOf(spec, figure, g.row), opacity: 0.9, "data-row": g.row }, svg);
      base = top;
    });
    svg.append(...svg.querySelectorAll("line.start"));
    const mark = el("line", { class: "start hidden", y1: box.top, y2: box.bottom }, svg);
    return {
      count: places.length,
      near: (px) => nearest(places.map(sx), px),
      tell: (k) => {
        mark.classList.remove("hidden"); mark.setAttribute("x1", sx(places[k])); mark.setAttribute("x2", sx(places[k]));
        return [[(panel ? panel + ", " : "") + spec.x + " " + short(places[k])], ...all.map((g, n) => [g.row + ": " + short(value[n][k]), colourOf(spec, figure, g.row)]).reverse()];
      },
      at: (k) => [sx(places[k]), box.top],
      leave: () => mark.classList.add("hidden"),
    };
  }

  function drawIntervals(svg, box, spec, figure, panel) {
    const gone = hidden(figure), V = column(spec, "value"), L = column(spec, "low"), H = column(spec, "high");
    const rows = column(spec, "row"), panels = column(spec, "panel");
    const at = rows.map((_, i) => i).filter((i) => panels[i] === panel && !gone.has(rows[i]));
    if (figure.querySelector("[data-order]:checked")) at.sort((a, b) => V[b] - V[a]);
    const whole = spec.options.unit && !fitted(figure) ? [0, 1] : [];
    const xs = spec.limits && !fitted(figure) ? spec.limits : extent([...at.flatMap((i) => [V[i], L[i], H[i]]), ...(spec.options.zero ? [0] : []), ...whole], 0.1);
    const [sx] = frame(svg, box, spec, xs, [0, 1], true);
    const step = (box.bottom - box.top) / Math.max(at.length, 1), sy = (n) => box.top + step * (n + (box.stacked ? 0.72 : 0.5));
    if (spec.options.zero) el("line", { x1: sx(0), x2: sx(0), y1: box.top, y2: box.bottom, stroke: "var(--fg)" }, svg);
    at.forEach((i, n) => {
      const colour = colourOf(spec, figure, rows[i]);
      if (known(L[i])) el("line", { x1: sx(L[i]), x2: sx(H[i]), y1: sy(n), y2: sy(n), stroke: colour, "stroke-width": 6, opacity: 0.35 }, svg);
      el("circle", { cx: sx(V[i]), cy: sy(n), r: 4.5, fill: colour, "data-row": rows[i] }, svg);
      if (box.stacked) el("text", { x: 4, y: sy(n) - 8 }, svg, clipped(rows[i], box.right));
      else el("text", { x: box.left - 6, y: sy(n) + 4, "text-anchor": "end" }, svg, rows[i]);
    });
    return {
      count: at.length,
      near: (_, py) => Math.min(at.length - 1, Math.max(0, Math.floor((py - box.top) / step))),
      tell: (n) => [[rows[at[n]] + ": " + short(V[at[n]]) + (known(L[at[n]]) ? " [" + short(L[at[n]]) + ", " + short(H[at[n]]) + "]" : ""), colourOf(spec, figure, rows[at[n]])]],
      at: (n) => [sx(V[at[n]]), sy(n)],
      leave: () => {},
    };
  }
  const clipped = (text, width) => { const most = Math.max(3, Math.floor(width / 6)); return text.length > most ? text.slice(0, most - 1) + "…" : text; };

  function drawMatrix(svg, box, spec, figure, panel) {
    const gone = spec.options.rows ? hidden(figure) : new Set();
    const panels = column(spec, "panel"), lines = column(spec, "line"), cols = column(spec, "column"), V = column(spec, "value");
    const at = V.map((_, i) => i).filter((i) => panels[i] === panel && !gone.has(lines[i]) && !gone.has(cols[i]));
    const down = distinct(at.map((i) => lines[i])), across = distinct(at.map((i) => cols[i]));
    if (spec.options.up) down.sort((a, b) => b - a);
    if (spec.options.rows) { const order = rowsOf(figure); down.sort((a, b) => order.indexOf(a) - order.indexOf(b)); across.sort((a, b) => order.indexOf(a) - order.indexOf(b)); }
    const range = spec.limits || extent(at.map((i) => V[i]), 1);
    if (spec.options.scale) range[0] = 0;
    const w = (box.right - box.left) / across.length, h = (box.bottom - box.top) / down.length;
    const stops = spec.options.diverging ? DIVERGING : RAMP, cells = new Map(), whole = at.every((i) => Number.isInteger(V[i]) || !known(V[i]));
    if (box.heading && spec.options.scale) box.heading.textContent = panel + ": " + short(range[0]) + " to " + short(range[1]) + " " + spec.options.scale;
    for (const i of at) {
      const x = box.left + across.indexOf(cols[i]) * w, y = box.top + down.indexOf(lines[i]) * h, t = (V[i] - range[0]) / (range[1] - range[0]);
      cells.set(down.indexOf(lines[i]) * across.length + across.indexOf(cols[i]), i);
      el("rect", { x: x, y: y, width: Math.max(w + 0.3, 0.5), height: Math.max(h + 0.3, 0.5), fill: known(V[i]) ? ramp(stops, t) : "var(--soft)" }, svg);
      if (w > 30 && h > 12 && known(V[i])) {
        const dark = spec.options.diverging ? t > 0.2 && t < 0.8 : t > 0.6;
        el("text", { x: x + w / 2, y: y + h / 2 + 4, "text-anchor": "middle", style: "fill:" + (dark ? "#000" : "#fff"), "font-size": 10 }, svg, whole || Math.abs(V[i]) >= 100 ? short(V[i]) : V[i].toFixed(2));
      }
    }
    const widest = Math.max(...across.map((c) => (typeof c === "number" ? tickText(c).length : 4)));
    const skipX = Math.max(1, Math.ceil(Math.max(32, widest * 9) / w)), skipY = Math.max(1, Math.ceil(13 / h));
    across.forEach((c, k) => {
      if (k % skipX) return;
      const word = spec.options.rows ? String(k + 1) : typeof c === "number" ? tickText(c) : clipped(c, w * skipX);
      el("text", { class: "dim", x: box.left + (k + 0.5) * w, y: box.bottom + 13, "text-anchor": "middle" }, svg, word);
    });
    down.forEach((c, k) => {
      if (k % skipY) return;
      const word = typeof c === "number" ? tickText(c) : (spec.options.rows ? k + 1 + " " : "") + c;
      el("text", { class: "dim", x: box.left - 5, y: box.top + (k + 0.5) * h + 4, "text-anchor": "end" }, svg, clipped(word, box.left - (spec.y ? 18 : 6)));
    });
    labels(svg, box, spec);
    return {
      count: down.length * across.length,
      across: across.length,
      near: (px, py) => {
        const c = Math.floor((px - box.left) / w), r = Math.floor((py - box.top) / h);
        return c < 0 || r < 0 || c >= across.length || r >= down.length ? -1 : r * across.length + c;
      },
      tell: (k) => {
        const i = cells.get(k);
        return [[(panel ? panel + ", " : "") + spec.y + " " + short(down[Math.floor(k / across.length)]) + ", " + spec.x + " " + short(across[k % across.length]) + ": " + (i === undefined ? "–" : short(V[i]))]];
      },
      at: (k) => [box.left + ((k % across.length) + 0.5) * w, box.top + (Math.floor(k / across.length) + 0.5) * h],
      leave: () => {},
    };
  }

  function ordered(words) {
    const phases = Object.keys(OWN);
    return words.sort((a, b) => phases.indexOf(a) - phases.indexOf(b) || String(a).localeCompare(String(b), "en", { numeric: true }));
  }
  function drawPoints(svg, box, spec, figure) {
    const X = column(spec, "x"), Y = column(spec, "y"), by = figure.querySelector("[data-colour]");
    const name = by ? by.value : spec.colours[0], C = name ? column(spec, name) : null;
    const words = C && C.some((v) => typeof v === "string") ? ordered(distinct(C)) : null, range = C && !words ? extent(C, 0.5) : null;
    const paint = (i) => !C || !known(C[i]) ? "var(--dim)" : words ? OWN[C[i]] || "var(--r" + (words.indexOf(C[i]) % 10) + ")" : ramp(RAMP, (C[i] - range[0]) / (range[1] - range[0]));
    const padded = ([low, high]) => [low - 0.03 * (high - low), high + 0.03 * (high - low)];
    const [sx, sy] = frame(svg, box, spec, padded(extent(X, 0.5)), padded(extent(Y, 0.5)));
    const r = X.length > 2000 ? 1.8 : 2.8;
    X.forEach((x, i) => { if (known(x) && known(Y[i])) el("circle", { cx: sx(x).toFixed(1), cy: sy(Y[i]).toFixed(1), r: r, fill: paint(i), opacity: 0.8 }, svg); });
    const ring = el("circle", { class: "hidden", r: 6, fill: "none", stroke: "var(--fg)", "stroke-width": 1.5 }, svg);
    const scale = figure.querySelector(".scale");
    if (scale) {
      scale.replaceChildren();
      html("span", { class: "paper" }, scale, name + ": ");  // on paper, the choice is not shown
      if (words) words.slice(0, 30).forEach((w) => { const one = html("span", {}, scale); html("b", { style: "background:" + (OWN[w] || "var(--r" + (words.indexOf(w) % 10) + ")") + ";display:inline-block;width:.8em;height:.8em;border-radius:50%;margin:0 .3em 0 .6em" }, one); one.append(w); });
      else if (range) gradient(scale, range, RAMP);
    }
    const told = Object.keys(spec.data).filter((n) => n !== "x" && n !== "y");
    return {
      count: X.length,
      near: (px, py) => { let best = -1, least = 400; X.forEach((x, i) => { const d = (sx(x) - px) ** 2 + (sy(Y[i]) - py) ** 2; if (d < least) { least = d; best = i; } }); return best; },
      tell: (i) => { ring.classList.remove("hidden"); ring.setAttribute("cx", sx(X[i])); ring.setAttribute("cy", sy(Y[i])); return spec.colours.map((n) => [n + ": " + short(column(spec, n)[i])]); },
      at: (i) => [sx(X[i]), sy(Y[i])],
      leave: () => ring.classList.add("hidden"),
      click: (i) => {
        const place = figure.querySelector(".detail");
        if (!place) return;
        place.replaceChildren(); place.classList.remove("hidden");
        html("strong", {}, place, "Experience " + short(column(spec, told[0])[i]));
        const frames = spec.options.frames;
        if (frames && frames[i]) { html("br", {}, place); html("img", { src: frames[i], alt: "its observation as a frame" }, place); }
        const list = html("dl", {}, place);
        for (const n of told) { html("dt", {}, list, n); html("dd", {}, list, short(column(spec, n)[i])); }
      },
    };
  }

  function drawFlow(svg, box, spec, figure, panel) {
    const panels = column(spec, "panel"), S = column(spec, "source"), T = column(spec, "target"), V = column(spec, "value");
    const at = V.map((_, i) => i).filter((i) => panels[i] === panel && V[i] > 0);
    if (!at.length) el("text", { class: "dim", x: (box.left + box.right) / 2, y: 40, "text-anchor": "middle" }, svg, "nothing moved");
    const total = at.reduce((sum, i) => sum + V[i], 0) || 1, gap = 15, left = {}, right = {};
    const stack = (names, of, place) => {
      const scale = (box.bottom - box.top - gap * (names.length - 1)) / total;
      let y = box.top;
      for (const n of names) { const size = at.filter((i) => of[i] === n).reduce((sum, i) => sum + V[i], 0) * scale; place[n] = { y: y, next: y, size: size }; y += size + gap; }
      return scale;
    };
    const scaleL = stack(distinct(at.map((i) => S[i])), S, left), scaleR = stack(distinct(at.map((i) => T[i])), T, right);
    const x0 = box.left + 10, x1 = box.right - 10, middle = (x0 + x1) / 2, centres = [];
    for (const i of at) {
      const a = left[S[i]], b = right[T[i]], ha = V[i] * scaleL, hb = V[i] * scaleR, colour = OWN[S[i]] || "var(--dim)";
      const d = `M${x0} ${a.next}C${middle} ${a.next} ${middle} ${b.next} ${x1} ${b.next}L${x1} ${b.next + hb}C${middle} ${b.next + hb} ${middle} ${a.next + ha} ${x0} ${a.next + ha}Z`;
      el("path", { d: d, fill: colour, opacity: 0.5 }, svg);
      centres.push([middle, (a.next + b.next + (ha + hb) / 2) / 2]);
      a.next += ha; b.next += hb;
    }
    for (const [place, x, anchor] of [[left, x0, "end"], [right, x1, "start"]]) for (const n in place) {
      el("rect", { x: x - 5, y: place[n].y, width: 10, height: Math.max(place[n].size, 1), fill: OWN[n] || "var(--dim)" }, svg);
      el("text", { x: anchor === "end" ? x - 9 : x + 9, y: place[n].y + place[n].size / 2 + 4, "text-anchor": anchor }, svg, n + " " + short(at.filter((i) => (anchor === "end" ? S : T)[i] === n).reduce((sum, i) => sum + V[i], 0)));
    }
    return {
      count: at.length,
      near: (px, py) => { let best = -1, least = Infinity; centres.forEach((c, k) => { const d = (c[0] - px) ** 2 / 9 + (c[1] - py) ** 2; if (d < least) { least = d; best = k; } }); return best; },
      tell: (k) => [[(panel ? panel + ": " : "") + S[at[k]] + " → " + T[at[k]] + ": " + short(V[at[k]])]],
      at: (k) => centres[k],
      leave: () => {},
    };
  }

  const DRAW = { lines: drawLines, areas: drawAreas, intervals: drawIntervals, matrix: drawMatrix, points: drawPoints, flow: drawFlow };
  const FEW = 12;
  function shownPanels(spec, figure) {
    const all = spec.kind === "points" ? [""] : distinct(column(spec, "panel"));
    const gone = spec.options.panels === "rows" ? hidden(figure) : new Set();
    const left = all.filter((p) => !gone.has(p)), select = figure.querySelector("[data-panel]");
    if (!select || select.value === "all") return left;
    if (left.length && gone.has(select.value)) select.value = left[0];
    return left.filter((p) => p === select.value);
  }
  function box(bar, name, text, figure) {
    const label = html("label", {}, bar), made = html("input", { type: "checkbox", [name]: "" }, label);
    label.append(" " + text);
    made.onchange = () => draw(figure);
  }
  function tools(spec, figure) {
    const bar = figure.querySelector(".tools") || html("div", { class: "tools" }, figure);
    const panels = spec.kind === "points" ? [""] : distinct(column(spec, "panel"));
    if (panels.length > 1) {
      const label = html("label", {}, bar, "show "), select = html("select", { "data-panel": "" }, label);
      if (panels.length <= FEW || spec.kind === "intervals") html("option", { value: "all" }, select, "all");
      for (const p of panels) html("option", { value: p }, select, p);
      select.onchange = () => draw(figure);
    }
    const seeds = column(spec, "seed");
    if (spec.kind === "lines" && seeds && seeds.some((s) => s >= 0)) {
      box(bar, "data-seeds", "single seeds", figure);
    }
    if (spec.kind === "intervals") box(bar, "data-order", "highest first", figure);
    if (spec.kind === "intervals" && spec.options.unit || spec.kind === "lines" && spec.limits) box(bar, "data-fit", "fit the axis to the rows shown", figure);
    if (spec.options.own) {
      const legend = html("span", { class: "scale" }, bar);
      for (const r of distinct(column(spec, "row")).slice(0, 60)) { const one = html("span", {}, legend); html("b", { style: "background:" + colourOf(spec, figure, r) + ";display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 .6em" }, one); one.append(r); }
    }
    else if (spec.kind === "lines") html("div", { class: "keys" }, bar);
    if (spec.kind === "matrix" && spec.limits) gradient(html("span", { class: "scale" }, bar), spec.limits, spec.options.diverging ? DIVERGING : RAMP);
    if (spec.starts.length) html("span", { class: "quiet" }, bar, "┊ a task begins");
    if (spec.kind === "points") {
      const label = html("label", {}, bar, "colour "), select = html("select", { "data-colour": "" }, label);
      for (const c of spec.colours) html("option", { value: c }, select, c);
      select.onchange = () => draw(figure);
      html("span", { class: "scale" }, bar);
      html("div", { class: "detail hidden", role: "region", "aria-label": "the chosen experience", tabindex: "0" }, figure);
    }
    const csv = html("button", { type: "button" }, bar, "data as CSV");
    csv.onclick = () => save(spec.name + ".csv", csvOf(spec));
    restore(figure);
  }
  // Which colour is which row, where the switches are not in view: on phones and on paper.
  function keys(spec, figure) {
    const place = figure.querySelector(".keys"), gone = hidden(figure);
    if (!place || rowsOf(figure).length < 2) return;
    place.replaceChildren();
    const shown = distinct(column(spec, "row")).filter((row) => row && !gone.has(row));
    for (const row of shown.slice(0, 60)) {
      const one = html("span", { style: "color:" + colourOf(spec, figure, row) }, place);
      html("i", { class: "dash-" + { "": 0, "6 3": 1, "2 3": 2 }[dashOf(spec, figure, row)] }, one);
      html("span", { style: "color:var(--fg)" }, one, row);
    }
  }
  function csvOf(spec) {
    const names = Object.keys(spec.data), all = names.map((n) => column(spec, n));
    const quoted = (v) => !known(v) ? "" : /[",\n]/.test(String(v)) ? '"' + String(v).replaceAll('"', '""') + '"' : String(v);
    return [names.join(","), ...all[0].map((_, i) => all.map((c) => quoted(c[i])).join(","))].join("\n") + "\n";
  }
  function save(name, text) {
    const link = html("a", { download: name, href: URL.createObjectURL(new Blob([text], { type: "text/csv" })) }, home);
    link.click(); link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function size(spec, figure, count, panel) {
    const full = Math.max(figure.clientWidth || home.clientWidth || 600, 200);
    const across = count === 1 ? 1 : Math.max(1, Math.min(count, Math.floor(full / 300)));
    const width = Math.floor((full - 7 * (across - 1)) / across) - 1;
    let height = spec.kind === "points" ? Math.min(width, 560) : count > 1 ? 210 : 300, left = 52, right = 18, bottom = 36, stacked = false;
    if (spec.kind === "intervals") {
      const rows = column(spec, "row"), panels = column(spec, "panel"), gone = hidden(figure);
      const mine = rows.filter((r, i) => panels[i] === panel && !gone.has(r));
      left = Math.max(...mine.map((r) => r.length), 4) * 6.2 + 12;
      stacked = left > width * 0.42;
      if (stacked) left = 10;
      height = 52 + (stacked ? 34 : 22) * Math.max(mine.length, 1);
    }
    if (spec.kind === "matrix") {
      const names = distinct(column(spec, "line")).filter((n) => typeof n === "string");
      if (names.length) left = Math.min(Math.max(...names.map((n) => n.length)) * 6.2 + 40, width * 0.42);
      if (spec.options.rows) height = Math.min(60 + 24 * names.length, 620);
      else height = count > 1 ? 240 : 360;
    }
    if (spec.kind === "flow") { left = 96; right = 124; bottom = 12; height = count > 1 ? 200 : 260; }
    return { width: width, height: height, box: { left: left, right: width - right, top: 10, bottom: height - bottom, stacked: stacked } };
  }
  function draw(figure) {
    const spec = specs[Number(figure.dataset.chart)], place = figure.querySelector(".plot");
    if (!figure.dataset.tools) { figure.dataset.tools = "1"; tools(spec, figure); }
    const panels = shownPanels(spec, figure);
    place.replaceChildren();
    keys(spec, figure);
    for (const panel of panels) {
      const { width, height, box } = size(spec, figure, panels.length, panel);
      const holder = html("div", { style: "flex:0 0 " + width + "px" }, place);
      if (panel) box.heading = html("div", { class: "quiet" }, holder, panel);
      const what = spec.title + (panel ? ", " + panel : "") + ". Arrow keys move through the values.";
      const svg = el("svg", { width: width, height: height, viewBox: "0 0 " + width + " " + height, tabindex: "0", role: "img", "aria-label": what }, holder);
      listen(svg, DRAW[spec.kind](svg, box, spec, figure, panel));
    }
    figure.dataset.drawn = figure.clientWidth;
  }
  function listen(svg, drawn) {
    let now = -1;
    const tell = (k, x, y) => { now = k; showTip(drawn.tell(k), x, y); };
    svg.addEventListener("pointermove", (event) => {
      const r = svg.getBoundingClientRect(), k = drawn.near(event.clientX - r.left, event.clientY - r.top);
      if (k >= 0 && k < drawn.count) tell(k, event.clientX, event.clientY); else { hideTip(); drawn.leave(); }
    });
    const away = () => { hideTip(); drawn.leave(); };
    svg.addEventListener("pointerleave", away);
    svg.addEventListener("blur", away);
    svg.addEventListener("click", () => { if (drawn.click && now >= 0) drawn.click(now); });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: drawn.across || 1, ArrowUp: -(drawn.across || 1) }[event.key];
      if (event.key === "Escape") return away();
      if (event.key === "Enter" && drawn.click && now >= 0) return drawn.click(now);
      if (!step || !drawn.count) return;
      event.preventDefault();
      const k = now < 0 ? 0 : Math.min(drawn.count - 1, Math.max(0, now + step)), r = svg.getBoundingClientRect(), [x, y] = drawn.at(k);
      tell(k, r.left + x, r.top + y);
    });
  }

  // A live page reloads when results change: the place of the reader, and what was chosen, stay.
  const KEPT = "crystalrl-live", kept = home.dataset.live ? JSON.parse(sessionStorage.getItem(KEPT) || "{}") : {};
  function nameOf(figure) {
    const name = (one) => specs[Number(one.dataset.chart)].name, same = figures.filter((one) => name(one) === name(figure));
    return name(figure) + "/" + same.indexOf(figure);
  }
  function keyOf(control) {
    const figure = control.closest("figure"), study = control.closest("[data-study]");
    return [figure ? nameOf(figure) : study.dataset.study, ...Object.entries(control.dataset).flat()].join("/");
  }
  const controls = (scope) => [...scope.querySelectorAll("figure :is(input, select), .rows input")];
  function restore(scope) {
    for (const control of kept.chosen ? controls(scope) : []) {
      const value = kept.chosen[keyOf(control)];
      if (control.type === "checkbox") control.checked = value ?? control.checked;
      else if ([...control.options].some((option) => option.value === value)) control.value = value;
    }
  }
  function keep() {
    const top = (figure) => figure.getBoundingClientRect().top, place = figures.filter((figure) => top(figure) < innerHeight / 2).pop();
    const chosen = { ...kept.chosen };
    for (const control of controls(root)) chosen[keyOf(control)] = control.type === "checkbox" ? control.checked : control.value;
    const at = place && scrollY > 0 ? { at: nameOf(place), top: top(place) } : {};
    sessionStorage.setItem(KEPT, JSON.stringify({ ...at, chosen: chosen, scroll: scrollY, theme: home.dataset.theme }));
  }

  // Charts are drawn when they come into view, and again when their width or their rows change.
  const figures = [...root.querySelectorAll("figure[data-chart]")];
  const waiting = new Set(figures);
  const viewer = new IntersectionObserver((seen) => seen.forEach((one) => {
    if (one.isIntersecting && waiting.delete(one.target)) draw(one.target);
  }), { rootMargin: "600px" });
  figures.forEach((figure) => viewer.observe(figure));
  const again = (figure) => { if (!waiting.has(figure)) draw(figure); };
  new ResizeObserver(() => figures.forEach((figure) => { if (figure.dataset.drawn && Number(figure.dataset.drawn) !== figure.clientWidth) again(figure); })).observe(home);
  const folded = [...root.querySelectorAll("details:not([open])")];  // on paper, nothing can be unfolded
  addEventListener("beforeprint", () => { for (const figure of waiting) draw(figure); waiting.clear(); folded.forEach((one) => (one.open = true)); });
  addEventListener("afterprint", () => folded.forEach((one) => (one.open = false)));

  for (const study of root.querySelectorAll("[data-study]")) {
    const boxes = [...study.querySelectorAll(".rows input[data-row]")];
    const apply = () => {
      const gone = new Set(boxes.filter((box) => !box.checked).map((box) => box.dataset.row));
      for (const line of study.querySelectorAll("tr[data-row]")) line.classList.toggle("hidden", gone.has(line.dataset.row));
      for (const figure of study.querySelectorAll("figure[data-chart]")) again(figure);
    };
    boxes.forEach((box) => {
      box.onchange = apply;
      box.parentElement.onpointerenter = () => light(study, box.dataset.row);
      box.parentElement.onpointerleave = () => light(study, null);
    });
    restore(study);
    if (boxes.some((box) => !box.checked)) apply();
    const all = study.querySelector(".rows [data-all]");
    if (all) all.onclick = () => { const on = boxes.some((box) => !box.checked); boxes.forEach((box) => (box.checked = on)); apply(); };
  }

  // Tables: sort by a click on a heading, filter by a word, copy as markdown.
  const numberIn = (text) => { const m = text.replace(/,/g, "").replace("−", "-").match(/-?\d*\.?\d+(?:e-?\d+)?/); return m ? Number(m[0]) : NaN; };
  for (const table of root.querySelectorAll("table[data-sort]")) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    heads.forEach((head, k) => {
      const button = html("button", { type: "button" });
      button.append(...head.childNodes);
      head.append(button);
      button.onclick = () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const value = (row) => row.cells[k].textContent, lines = [...body.rows];
        const numeric = k > 0 && lines.some((row) => !Number.isNaN(numberIn(value(row))));
        const order = (a, b) => numeric ? (numberIn(value(a)) || -Infinity) - (numberIn(value(b)) || -Infinity) : value(a).localeCompare(value(b));
        lines.sort((a, b) => (down ? -order(a, b) : order(a, b)));
        body.append(...lines);
      };
    });
  }
  for (const box of root.querySelectorAll("input[data-filter]")) {
    box.oninput = () => {
      const word = box.value.toLowerCase(), table = root.getElementById(box.dataset.filter);
      for (const row of table.tBodies[0].rows) row.classList.toggle("filtered", !row.textContent.toLowerCase().includes(word)), (row.style.display = row.classList.contains("filtered") ? "none" : "");
    };
  }
  const words = (cell) => cell.textContent.trim().replaceAll("|", "\\|");
  for (const button of root.querySelectorAll("button[data-copy]")) {
    button.onclick = async () => {
      const from = root.getElementById(button.dataset.copy);
      let text = from.textContent;
      if (from.tagName === "TABLE") {
        const lines = [...from.rows].filter((row) => row.offsetParent !== null).map((row) => "| " + [...row.cells].map(words).join(" | ") + " |");
        lines.splice(1, 0, "|" + " --- |".repeat(from.rows[0].cells.length));
        text = lines.join("\n") + "\n";
      }
      let copied = true;
      try { await navigator.clipboard.writeText(text); }
      catch (error) {
        const area = html("textarea", {}, home, text); area.select();
        copied = document.execCommand("copy"); area.remove();
      }
      const before = button.textContent;
      button.textContent = copied ? "copied" : "not copied";
      setTimeout(() => (button.textContent = before), 1200);
    };
  }
  const theme = root.querySelector("button.theme");
  if (theme) theme.onclick = () => {
    const dark = home.dataset.theme ? home.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    home.dataset.theme = dark ? "light" : "dark";
  };
  if (home.dataset.live) {
    history.scrollRestoration = "manual";
    if (kept.theme) home.dataset.theme = kept.theme;
    const place = figures.findIndex((figure) => nameOf(figure) === kept.at);
    for (const figure of figures.slice(0, place + 1)) if (waiting.delete(figure)) draw(figure);  // so that what is above has its height
    if (place >= 0) scrollBy(0, figures[place].getBoundingClientRect().top - kept.top);
    else if (kept.scroll) scrollTo(0, kept.scroll);
    new EventSource(home.dataset.live).onmessage = () => { keep(); location.reload(); };
  }
})();
