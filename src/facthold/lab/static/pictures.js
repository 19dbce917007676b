// Pictures that one can touch: plotly's, drawn when they come near the screen, in the colours of the page.
"use strict";
const pictures = (() => {
  const packed = document.getElementById("plotly"), dark = matchMedia("(prefers-color-scheme: dark)");
  const touched = matchMedia("(pointer: coarse)"), drawn = new Set();
  const LINE = 19, HEIGHT = 340, WIDE = 430; // of a line of the legend, and of panels without one

  async function load() {
    const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    packed.remove();
    document.head.append(script);
  }

  // A colour that was chosen for white, on dark: greys turn round, and others become lighter.
  function onDark(colour) {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16) / 255);
    const most = Math.max(r, g, b), least = Math.min(r, g, b), light = (most + least) / 2;
    const grey = most - least < 0.08;
    const wanted = grey ? 0.95 - 0.8 * light : Math.max(light, 0.62);
    const lift = (x) => (grey ? wanted : light >= 1 ? x : 1 - ((1 - x) * (1 - wanted)) / (1 - light));
    const hex = (x) => Math.round(255 * Math.min(1, Math.max(0, lift(x)))).toString(16).padStart(2, "0");
    return `#${hex(r)}${hex(g)}${hex(b)}${colour.slice(7)}`;
  }
  function coloured(value) {
    if (typeof value === "string") return dark.matches && /^#[0-9a-f]{6,8}$/.test(value) ? onDark(value) : value;
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(coloured);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, coloured(one)]));
  }

  // A name that is longer than the picture is wide goes on below.
  function wrapped(name, width) {
    const most = Math.max(20, Math.floor((width - 70) / 6.5)), lines = [""];
    for (const word of name.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (longer.replace(/<[^>]*>/g, "").length > most && lines.at(-1)) lines.push(word);
      else lines[lines.length - 1] = longer;
    }
    return lines.join("<br>");
  }
  function legendLines(data, width) {
    const shown = data.filter((one) => one.showlegend).map((one) => one.name.split("<br>"));
    if (shown.some((lines) => lines.length > 1)) return shown.reduce((sum, lines) => sum + lines.length, 0);
    const names = shown.map(([name]) => name.replace(/<[^>]*>/g, ""));
    const widest = Math.max(0, ...names.map((name) => 7 * name.length + 45));
    return names.length ? Math.ceil(names.length / Math.max(1, Math.floor(width / widest))) : 0;
  }
  function draw(plot) {
    const given = JSON.parse(plot.parentElement.querySelector("script").textContent);
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
    const { xaxis, yaxis, annotations, shapes } = coloured(given.layout), data = coloured(given.data);
    const width = plot.clientWidth;
    for (const one of data) one.name = wrapped(one.name, width);
    const lines = legendLines(data, width);
    const axis = (one) => ({ ...one, gridcolor: colour("--line"), linecolor: colour("--edge"), zeroline: false, automargin: true,
      showline: true, minor: { ticks: "" }, tickangle: 0, title: { ...one.title, standoff: 8 },
      ...(one.tickvals ? {} : one.type === "log" ? { dtick: 1 } : { nticks: width < 500 ? 6 : 9 }) });
    const layout = {
      xaxis: axis(xaxis), yaxis: axis(yaxis), annotations, shapes, height: (width > 700 ? WIDE : HEIGHT) + LINE * lines, autosize: true,
      margin: { l: 55, r: 12, t: 8, b: 45 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: colour("--text") }, hovermode: "closest", barmode: "overlay",
      hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--edge"), font: { color: colour("--text") }, align: "left" },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 0, yref: "container", yanchor: "bottom" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--text") },
      showlegend: lines > 0, dragmode: touched.matches ? false : "zoom",
    };
    // these alone: plotly has one more, which would send the picture to its makers
    const options = { responsive: true, displaylogo: false, plotlyServerURL: "",
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]] };
    return Plotly.react(plot, data, layout, options);
  }

  async function start() {
    const plots = [...document.querySelectorAll(".plot")];
    if (!packed || !plots.length) return;
    await load();
    for (const panels of document.querySelectorAll(".panels")) {
      panels.hidden = false;
      panels.parentElement.querySelector(".still").hidden = true;
    }
    const near = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen) {
        if (!isIntersecting || drawn.has(target)) continue;
        drawn.add(target);
        draw(target);
      }
    }, { rootMargin: "600px" });
    for (const plot of plots) near.observe(plot);
    dark.addEventListener("change", () => drawn.forEach(draw));
  }
  // Where a browser cannot, the pictures stay as they are.
  return { ready: start().catch((error) => console.warn(`pictures stay still: ${error.message}`)) };
})();
