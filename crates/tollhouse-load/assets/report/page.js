"use strict";
// Draws the charts of a report from the data in the page, and serves its buttons. When all is drawn,
// <html> bears data-ready with the number of charts; what went wrong stands in data-errors.
(() => {
  const root = document.documentElement;
  addEventListener("error", (event) => {
    root.dataset.errors = (root.dataset.errors || "") + event.message + "\n";
  });
  const find = (id) => document.getElementById(id);
  const data = (id) => JSON.parse(find(id).textContent);
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  // Series come as the names of their fields once, and a list of values for each point.
  const unpacked = ({ keys, rows }) => rows.map((row) => Object.fromEntries(keys.map((key, at) => [key, row[at]])));
  const results = data("report").results.map((result) => ({
    ...result,
    series: unpacked(result.series),
    processes: result.processes.map((one) => ({ ...one, samples: unpacked(one.samples) })),
  }));
  const charts = data("charts");
  const UNKNOWN = "–";

  // The same rule as for the figures in the tables.
  const number = (value) => {
    if (value == null || !isFinite(value)) return UNKNOWN;
    const size = Math.abs(value);
    const digits = size < 0.0005 ? 0 : size < 9.9995 ? 3 : size < 99.995 ? 2 : size < 999.5 ? 1 : 0;
    return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };
  const tick = (value) => (value == null ? "" : value.toLocaleString("en-US", { maximumSignificantDigits: 4 }));

  // Colours come from the style sheet, so that a chart is light or dark as the page is.
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const paintOf = (series) => colour(series.colour == null ? series.tone || "ink" : "s" + series.colour);

  const markerOf = (series) => {
    const paint = paintOf(series);
    const [drawn, left] = series.dash || [];
    return drawn ? `repeating-linear-gradient(90deg, ${paint} 0 ${drawn}px, transparent ${drawn}px ${drawn + left}px)` : paint;
  };

  const HEIGHT = 240;
  // Half of a page of paper on its side, A4 or Letter.
  const PAPER_WIDTH = 440;
  let isPrinting = false;
  const drawn = [];

  function axis(label, extra) {
    return {
      label, labelSize: 18, labelGap: 0, labelFont: "12px system-ui, sans-serif", font: "11.5px system-ui, sans-serif",
      stroke: () => colour("quiet"), grid: { stroke: () => colour("grid"), width: 1 },
      ticks: { stroke: () => colour("grid"), width: 1, size: 5 },
      values: (_, values) => values.map(tick), ...extra,
    };
  }

  function lineOf(series) {
    return {
      label: series.label, width: series.width || 1.6, dash: series.dash, spanGaps: Boolean(series.joined || series.spans),
      show: series.show !== false, stroke: () => paintOf(series),
      points: series.joined ? { show: true, size: 6, fill: () => paintOf(series) } : { show: false },
      value: (_, value) => (value == null ? "" : number(value)),
    };
  }

  // Lowest to highest of several runs, as a bar through the point.
  function drawSpreads(chart, series) {
    const context = chart.ctx;
    context.save();
    context.lineWidth = 1.5 * devicePixelRatio;
    series.forEach((one, index) => {
      if (!one.low || !chart.series[index + 1].show) return;
      context.strokeStyle = paintOf(one);
      one.low.forEach((low, at) => {
        if (low == null || low === one.high[at]) return;
        const x = chart.valToPos(chart.data[0][at], "x", true);
        context.beginPath();
        context.moveTo(x, chart.valToPos(low, "y", true));
        context.lineTo(x, chart.valToPos(one.high[at], "y", true));
        context.stroke();
      });
    });
    context.restore();
  }

  // Labels of loads that lie too near to the one before are left out.
  function apart(chart, loads) {
    let last = -Infinity;
    return loads.map((load) => {
      const at = chart.valToPos(load, "x");
      if (at - last < 38) return "";
      last = at;
      return tick(load);
    });
  }

  // Round values on a logarithmic axis, not too many.
  function roundOnes(low, high) {
    const ones = (mantissas) => {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
        mantissas.forEach((mantissa) => found.push(Number((mantissa * 10 ** power).toPrecision(3))));
      }
      return found.filter((value) => value >= low && value <= high);
    };
    const [coarse, fine] = [ones([1, 3]), ones([1, 2, 5])];
    return fine.length <= 8 ? fine : coarse.length <= 8 ? coarse : ones([1]);
  }

  // Values that span decades are told apart on a logarithmic axis only.
  const spans = (values, times) => {
    const known = values.filter((value) => value > 0);
    return known.length > 1 && Math.max(...known) > times * Math.min(...known);
  };
  const extreme = (lists, pick, start) =>
    lists.reduce((sofar, list) => list.reduce((so, value) => (value == null ? so : pick(so, value)), sofar), start);

  function draw(figure, spec) {
    const values = spec.series.map((one) => one.values);
    const [low, high] = [extreme(values, Math.min, Infinity), extreme(values, Math.max, 0)];
    const isLog = Boolean(spec.log) && low > 0 && high > 20 * low;
    const room = (from, to) => [from / 1.15, to * 1.15];
    const scales = {
      x: spec.xLog ? { time: false, distr: 3, range: (_, from, to) => room(from, to) } : { time: false },
      y: isLog ? { distr: 3, range: (_, from, to) => room(from, to) } : { range: (_, low, high) => [spec.zero === false ? low : 0, high > 0 ? high * 1.08 : 1] },
    };
    const width = () => Math.max(260, figure.clientWidth - 30);
    const chart = new uPlot({
      width: width(), height: HEIGHT, scales, padding: [10, 24, 0, 0],
      cursor: { y: false, drag: { x: true, y: false }, focus: { prox: 24 } },
      legend: { live: true, markers: { width: 0, fill: (_, index) => markerOf(spec.series[index - 1] || {}) } },
      axes: [
        axis(spec.x, spec.ticks
          ? { size: 30, splits: () => spec.ticks, filter: (_, splits) => splits, values: (chart, splits) => apart(chart, splits) }
          : { size: 30 }),
        axis(spec.y, isLog
          ? { size: 62, splits: (_, index, from, to) => roundOnes(from, to), filter: (_, splits) => splits }
          : { size: 62 }),
      ],
      series: [{ label: spec.x, value: (_, value) => (value == null ? "" : `${tick(value)} ${spec.x}`) }, ...spec.series.map(lineOf)],
      hooks: { draw: [(chart) => drawSpreads(chart, spec.series)] },
    }, [spec.at, ...values], figure);
    chart.root.querySelectorAll("canvas").forEach((canvas) => {
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", describe(spec));
    });
    chart.fit = (wanted) => {
      if (chart.width !== wanted) chart.setSize({ width: wanted, height: HEIGHT });
    };
    chart.unfit = () => chart.fit(width());
    const observer = new ResizeObserver(() => { if (!isPrinting) chart.unfit(); });
    observer.observe(figure);
    chart.paint = () => {
      chart.root.querySelectorAll(".u-marker").forEach((marker, index) => {
        marker.style.background = markerOf(spec.series[index - 1] || {});
      });
      chart.redraw(false, true);
    };
    drawn.push(chart);
    return { chart, remove: () => { observer.disconnect(); chart.destroy(); drawn.splice(drawn.indexOf(chart), 1); } };
  }

  function describe(spec) {
    const lines = spec.series.map((one) => {
      const known = one.values.filter((value) => value != null);
      return known.length ? `${one.label} from ${number(Math.min(...known))} to ${number(Math.max(...known))}` : one.label;
    });
    return `${spec.title}, ${spec.y} over ${spec.x}: ${lines.join("; ")}`;
  }

  // ---- Over the load.

  // What was published is dashed; further lines of a subject, all of its colour, are dotted.
  const dashOf = (line) => {
    if (line.published) return line.variant ? [6, 3, 1, 3] : [6, 4];
    return line.variant ? [2, 3] : undefined;
  };

  document.querySelectorAll("[data-over-load]").forEach((figure) => {
    const chart = charts.over_load[figure.dataset.overLoad];
    const isMeasured = chart.series.some((line) => !line.published);
    draw(figure, {
      title: chart.title, x: chart.x, y: chart.y, at: chart.loads, ticks: chart.loads,
      xLog: spans(chart.loads, 8), log: chart.y === "ms",
      series: chart.series.map((line) => ({
        label: line.name, values: line.middle, low: line.low, high: line.high, colour: line.colour, joined: true,
        dash: dashOf(line), show: !(line.published && isMeasured),
      })),
    });
  });

  // ---- Over time, of one run.

  const seconds = (list) => list.map((one) => one.at_ns / 1e9);
  const milliseconds = (list, key) => list.map((one) => (one.completed ? one[key] / 1e6 : null));
  const rates = (list) => list.map((one) => (one.span_ns ? (one.completed * 1e9) / one.span_ns : null));

  // Lines with instants of their own on one axis; those of different runs rarely agree, so gaps are none.
  function aligned(lines) {
    const joined = uPlot.join(lines.map((line) => [line.at, line.values]));
    return { at: joined[0], series: lines.map((line, index) => ({ ...line, values: joined[index + 1], spans: true })) };
  }

  function throughput(run, result) {
    const own = { label: run.subject || "measured", at: seconds(result.series), values: rates(result.series), colour: run.colour, width: 2.2 };
    const lines = [own];
    if (run.asked) lines.push({ label: "asked for", at: own.at, values: run.asked, tone: "ink", dash: [4, 4] });
    if (result.series.some((one) => one.failed)) {
      const failed = result.series.map((one) => (one.span_ns ? (one.failed * 1e9) / one.span_ns : null));
      lines.push({ label: "failed", at: own.at, values: failed, tone: "invalid" });
    }
    const others = charts.runs.filter((other) =>
      other.name === run.name && other.subject !== run.subject && other.repetition === run.repetition);
    others.forEach((other) => {
      const series = results[other.place].series;
      lines.push({ label: other.subject, at: seconds(series), values: rates(series), colour: other.colour, width: 1 });
    });
    return { title: "Throughput", y: "requests/s", ...aligned(lines) };
  }

  function times(run, result) {
    const series = result.series;
    const line = (key, label, tone, width) => ({ label, values: milliseconds(series, key), tone, width });
    return {
      title: run.times[0].toUpperCase() + run.times.slice(1), y: "ms", log: true, at: seconds(series),
      series: [line("p50_ns", "p50", "q0", 2), line("p90_ns", "p90", "q1", 1.6), line("p99_ns", "p99", "q2", 1.6), line("max_ns", "max", "q3", 1)],
    };
  }

  // What is measured has the colour of its subject; generator and upstream stand back.
  const STYLES = { generator: { tone: "quiet" }, upstream: { tone: "quiet", dash: [5, 4] } };
  function ofProcesses(run, result, title, y, figure) {
    const lines = result.processes.filter((one) => one.samples.length > 1).map((one, index) => ({
      label: one.role, at: seconds(one.samples), values: one.samples.map(figure),
      ...(one.role === "target" ? { colour: run.colour, width: 2 } : STYLES[one.role] || { tone: "q" + (index % 4) }),
    }));
    return lines.length ? { title, y, ...aligned(lines) } : null;
  }

  function connections(run, result) {
    const series = result.series;
    if (!series.some((one) => one.in_flight || one.connections)) return null;
    return {
      title: "Connections and requests in flight", y: "", at: seconds(series),
      series: [
        { label: "connections", values: series.map((one) => one.connections), tone: "quiet", dash: [5, 4] },
        { label: "in flight", values: series.map((one) => one.in_flight), colour: run.colour },
      ],
    };
  }

  function kernel(result) {
    const kernel = result.kernel;
    if (!kernel || kernel.at_ns.length < 2) return null;
    const lines = [["retransmits", "TCP retransmits", "caution"], ["listen_overflows", "listen queue overflows", "invalid"]]
      .filter(([key]) => (kernel[key] || []).some((value) => value > 0))
      .map(([key, label, tone]) => ({ label, values: kernel[key], tone }));
    return lines.length ? { title: "What the kernel counted", y: "since the last sample", at: kernel.at_ns.map((at) => at / 1e9), series: lines } : null;
  }

  let shown = [];
  function show(run) {
    shown.forEach((chart) => chart.remove());
    const result = results[run.place];
    const place = find("over-time-charts");
    place.replaceChildren();
    const hasSeries = result.series.length > 1;
    const specs = [
      hasSeries && throughput(run, result),
      hasSeries && times(run, result),
      ofProcesses(run, result, "CPU", "cores", (one) => one.cpu_cores),
      ofProcesses(run, result, "Memory", "MiB", (one) => one.rss_bytes / 1048576),
      hasSeries && connections(run, result),
      kernel(result),
    ];
    shown = specs.filter(Boolean).map((spec) => {
      const figure = make("figure", { className: "chart" }, make("figcaption", { textContent: spec.title }));
      place.append(figure);
      return draw(figure, { x: "seconds", ...spec });
    });
    const intervals = find("intervals");
    intervals.hidden = !hasSeries;
    if (intervals.open) tabulate(result);
  }

  function tabulate(result) {
    const heads = ["Second", "Requests/s", "Failed", "p50 ms", "p90 ms", "p99 ms", "max ms", "In flight", "Connections"];
    const cells = (one) => [one.at_ns / 1e9, one.span_ns ? (one.completed * 1e9) / one.span_ns : null, one.failed,
      ...["p50_ns", "p90_ns", "p99_ns", "max_ns"].map((key) => (one.completed ? one[key] / 1e6 : null)), one.in_flight, one.connections];
    const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col", textContent: text })));
    const rows = result.series.map((one) => make("tr", {}, ...cells(one).map((value) => make("td", { textContent: number(value) }))));
    find("intervals").querySelector(".scroll").replaceChildren(
      make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
  }

  if (charts.runs.length) {
    const chooser = find("run");
    const groups = new Map();
    charts.runs.forEach((run, index) => {
      if (!groups.has(run.subject)) groups.set(run.subject, make("optgroup", { label: run.subject || "Cases" }));
      const text = run.repetitions > 1 ? `${run.name}, run ${run.repetition} of ${run.repetitions}` : run.name;
      groups.get(run.subject).append(make("option", { value: index, textContent: run.subject ? `${run.subject}: ${text}` : text }));
    });
    chooser.append(...groups.values());
    const choose = (index) => {
      const count = charts.runs.length;
      chooser.value = (index + count) % count;
      show(charts.runs[chooser.value]);
    };
    chooser.addEventListener("change", () => choose(Number(chooser.value)));
    find("previous").addEventListener("click", () => choose(Number(chooser.value) - 1));
    find("next").addEventListener("click", () => choose(Number(chooser.value) + 1));
    find("intervals").addEventListener("toggle", (event) => {
      if (event.target.open) tabulate(results[charts.runs[chooser.value].place]);
    });
    document.querySelector(".chooser").hidden = false;
    choose(charts.shown);
  }

  // ---- The legend of the spectrum points lines out.

  const legend = [...document.querySelectorAll(".legend button")];
  const lines = [...document.querySelectorAll(".drawing .line")];
  function pointOut(rows) {
    lines.forEach((line) => line.classList.toggle("chosen", rows.includes(line.dataset.row)));
    document.querySelector(".drawing svg").classList.toggle("choosing", rows.length > 0);
  }
  const pressed = () => legend.filter((button) => button.ariaPressed === "true").map((button) => button.dataset.row);
  legend.forEach((button) => {
    button.ariaPressed = "false";
    button.addEventListener("click", () => {
      button.ariaPressed = button.ariaPressed === "true" ? "false" : "true";
      pointOut(pressed());
    });
    button.addEventListener("pointerenter", () => pointOut([...pressed(), button.dataset.row]));
    button.addEventListener("pointerleave", () => pointOut(pressed()));
  });

  // ---- Theme, paper, download, copy.

  const repaint = () => drawn.forEach((chart) => chart.paint());
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const toggle = find("theme");
  const name = () => { toggle.textContent = isDark() ? "Light" : "Dark"; };
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
    repaint();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { name(); repaint(); });
  name();

  let before;
  addEventListener("beforeprint", () => {
    isPrinting = true;
    before = root.dataset.theme;
    root.dataset.theme = "light";
    document.querySelectorAll("details:not(#intervals)").forEach((one) => { one.open = true; });
    drawn.forEach((chart) => chart.fit(PAPER_WIDTH));
    repaint();
  });
  addEventListener("afterprint", () => {
    isPrinting = false;
    drawn.forEach((chart) => chart.unfit());
    if (before) root.dataset.theme = before; else delete root.dataset.theme;
    repaint();
  });

  document.querySelectorAll("[data-copy]").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = find(button.dataset.copy).textContent;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        // Pages from files may not use the clipboard: select the text instead.
        getSelection().selectAllChildren(find(button.dataset.copy));
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  });
  document.querySelector(".tools").hidden = false;
  root.dataset.ready = String(drawn.length);
})();
