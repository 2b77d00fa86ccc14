// Draws the charts of a queue's page from what the server says in data-chart, and again when that changes.

// Loaded with the first chart: where it does not run, the keys alone tell the numbers, and the rest of the page works.
let uPlot;
const drawn = new Map();
const HEIGHT = 150;

// Short forms are for axes; keys say numbers as the server does.
const short = (n, unit) => {
  if (n === 0) return "0";
  if (unit === "") return n >= 1e6 ? `${+(n / 1e6).toFixed(1)}M` : n >= 1e4 ? `${+(n / 1e3).toFixed(1)}k` : `${+n.toFixed(n < 10 ? 2 : 0)}`;
  const ms = unit === "s" ? n * 1000 : n;
  if (ms < 1000) return `${Math.round(ms)}\u00a0ms`;
  if (ms < 60_000) return `${+(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)}\u00a0s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)}\u00a0min`;
  return `${Math.round(ms / 3_600_000)}\u00a0h`;
};
const count = (n) => String(Math.floor(n)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
const span = (ms) => {
  const whole = (size) => Math.floor(ms / size);
  if (ms < 1) return "<\u00a01\u00a0ms";
  if (ms < 1000) return `${whole(1)}\u00a0ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)}\u00a0s`;
  if (ms < 3_600_000) return `${whole(60_000)}\u00a0min\u00a0${whole(1000) % 60}\u00a0s`;
  if (ms < 172_800_000) return `${whole(3_600_000)}\u00a0h\u00a0${whole(60_000) % 60}\u00a0min`;
  return `${whole(86_400_000)}\u00a0days`;
};
const words = (n, unit) => {
  if (n === null || n === undefined) return "–";
  if (unit !== "") return span(unit === "s" ? n * 1000 : n);
  if (n >= 10 || Number.isInteger(n)) return count(n + 0.5);
  return n < 0.1 ? "<\u00a00.1" : n.toFixed(1);
};
const clock = (seconds, long) => {
  const text = new Date(seconds * 1000).toISOString();
  return long ? `${text.slice(5, 10)} ${text.slice(11, 16)}` : text.slice(11, 19);
};

// The keys show the newest values, or those under the pointer.
const tell = (figure, { times, lines, unit }, at) => {
  const index = at ?? times.length - 1;
  const values = figure.querySelectorAll(".key b");
  lines.forEach((line, i) => {
    let value = line[index];
    if (at === null || at === undefined) value = line.findLast((n) => n !== null);
    if (values[i]) values[i].textContent = words(value, unit);
  });
  const caption = figure.querySelector("figcaption");
  caption.dataset.at = at === null || at === undefined ? "" : clock(times[index], times.at(-1) - times[0] > 86_400);
};

const plot = (figure, text) => {
  const data = JSON.parse(text);
  const box = figure.querySelector(".plot");
  const ink = getComputedStyle(figure.querySelector("figcaption")).color;
  const grid = getComputedStyle(figure).borderTopColor;
  const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: `11px ${getComputedStyle(document.body).fontFamily}` };
  const long = data.times.at(-1) - data.times[0] > 86_400;
  const chart = new uPlot({
    width: box.clientWidth, height: HEIGHT, legend: { show: false }, padding: [8, 18, 0, 0],
    cursor: { sync: { key: "queue" }, y: false, points: { size: 5 }, drag: { x: false, y: false } },
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(high, 1) * 1.08] } },
    axes: [
      { ...axis, size: 26, space: 70, values: (_, list) => list.map((s) => (long ? clock(s, true) : clock(s).slice(0, 5))) },
      { ...axis, size: 52, space: 34, values: (_, list) => list.map((n) => short(n, data.unit)) },
    ],
    series: [{}, ...data.lines.map((_, i) => ({
      stroke: getComputedStyle(figure.querySelector(`.key-${i}`)).color, width: 1.5, spanGaps: false,
      dash: [undefined, [5, 3], [2, 2]][i], points: { show: data.times.length < 3 },
    }))],
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    hooks: { setCursor: [(u) => tell(figure, drawn.get(figure.id)?.data ?? data, u.cursor.left >= 0 ? u.cursor.idx : undefined)] },
  }, [data.times, ...data.lines], box);
  return { chart, text, data, lines: data.lines.length };
};

const drop = (id) => {
  drawn.get(id)?.chart.destroy();
  drawn.delete(id);
};

// draw draws what is new or different; with anew, everything, as in other colours.
export const draw = async (anew) => {
  const figures = document.querySelectorAll("figure[data-chart]");
  if (figures.length === 0 && drawn.size === 0) return;
  uPlot ??= (await import("uplot/dist/uPlot.esm.js")).default;
  for (const id of [...drawn.keys()]) if (anew || !document.getElementById(id)?.isConnected) drop(id);
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const text = figure.dataset.chart;
    const old = drawn.get(figure.id);
    const box = figure.querySelector(".plot");
    if (old && old.text === text && box.contains(old.chart.root)) continue;
    const data = JSON.parse(text);
    if (old && box.contains(old.chart.root) && old.lines === data.lines.length) {
      Object.assign(old, { text, data });
      old.chart.setData([data.times, ...data.lines]);
      continue;
    }
    drop(figure.id);
    box.replaceChildren();
    drawn.set(figure.id, plot(figure, text));
  }
};

addEventListener("resize", () => {
  for (const [id, { chart }] of drawn) {
    const box = document.getElementById(id)?.querySelector(".plot");
    if (box) chart.setSize({ width: box.clientWidth, height: HEIGHT });
  }
});
