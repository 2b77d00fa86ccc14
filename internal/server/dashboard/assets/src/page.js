// The page works without this file. With it, links and forms change what differs and no more, views keep themselves up to
// date, and times tell how long ago they are.
import htmx from "htmx.org/dist/htmx.esm.js";
import { draw } from "./charts.js";

const byId = (id) => document.getElementById(id);
const view = () => byId("page");

// ---- Changing what differs

let morph;
htmx.registerExtension("page", {
  init: (api) => { morph = api.morph; },
  // What people opened stays open, and what this file shows stays as it is.
  htmx_before_morph_attr: (element, { attrName }) => !(attrName === "open" && element.tagName === "DETAILS"),
  htmx_before_morph_node: (old, { newNode }) => {
    if (old.nodeType !== 1) return true;
    if (old.dataset.morph === "keep") return false;
    return !(old.tagName === "TIME" && old.dateTime === newNode.dateTime && old.hasAttribute("data-ago") === newNode.hasAttribute("data-ago"));
  },
});

const parse = (html) => {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
};

const replace = ({ id, html }) => {
  const element = byId(id);
  if (!element) return;
  morph(element, parse(html), false);
  const now = byId(id);
  if (now) htmx.process(now);
};

// arrange makes a list of those parts, in that order; html has those that are new or changed.
const arrange = ({ id, order, parts }) => {
  const list = byId(id);
  if (!list) return;
  const changed = new Map((parts ?? []).map((part) => [part.id, part.html]));
  const wanted = new Set(order);
  for (const child of [...list.children]) if (child.hasAttribute("data-part") && !wanted.has(child.id)) child.remove();
  let at = list.querySelector(":scope > [data-part]");
  for (const part of order) {
    let element = byId(part);
    if (!element && changed.has(part)) {
      element = parse(changed.get(part)).firstElementChild;
      list.insertBefore(element, at);
      htmx.process(element);
      changed.delete(part);
      continue;
    }
    if (!element) continue;
    if (element === at) at = at.nextElementSibling;
    else list.insertBefore(element, at);
  }
  for (const [part, html] of changed) replace({ id: part, html });
};

// A list in which something is ticked stands still, so that what is ticked stays where it is. Then it is asked for anew.
let missed = false;
const ticks = (which = "") => [...document.querySelectorAll(`#found input[name="id"]${which}`)];
const holds = (id) => Boolean(byId(id)?.closest("#found")) && ticks(":checked").length > 0;
const countTicks = () => {
  const [all, chosen, of] = [document.querySelector("#found [data-all]"), ticks(":checked").length, ticks().length];
  if (all) Object.assign(all, { checked: chosen > 0 && chosen === of, indeterminate: chosen > 0 && chosen < of });
  return chosen;
};
// In another view, or after something was done, ticked is what the address says.
const tick = () => {
  for (const box of ticks()) box.checked = box.defaultChecked;
  countTicks();
};
document.addEventListener("change", ({ target }) => {
  if (!target.closest?.("#found")) return;
  if (target.hasAttribute("data-all")) for (const box of ticks()) box.checked = target.checked;
  if (countTicks() > 0 || !missed) return;
  missed = false;
  disconnect();
  connect();
});

// ---- Searches

// What a search finds in a moment is shown at once. What it finds when it takes its time comes in its place.
let further;
const search = async () => {
  const url = byId("counted")?.dataset.more;
  if (further?.url === url) return;
  further?.stop.abort();
  further = undefined;
  if (!url) return;
  const mine = { url, stop: new AbortController() };
  further = mine;
  try {
    const found = parse(await (await fetch(url, { signal: mine.stop.signal })).text());
    if (mine !== further || byId("counted")?.dataset.more !== url) return;
    for (const id of ["found", "pages", "counted"]) {
      const element = found.getElementById(id);
      if (element && !holds(id)) replace({ id, html: element.outerHTML });
    }
    tell();
  } catch {
    // The link is still there.
  }
};

// ---- Times

const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const since = (iso, ahead) => {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(iso)) / 1000 * (ahead ? -1 : 1)));
  const [size, unit] = units.find(([size]) => seconds >= size * (size > 1 ? 2 : 1)) ?? [1, "s"];
  return `${Math.floor(seconds / size)}\u00a0${unit}`;
};
const tell = () => {
  for (const time of document.querySelectorAll("time[data-ago], time[data-age], time[data-in]")) {
    const { ago, in: ahead } = time.dataset;
    const text = ago !== undefined ? `${since(time.dateTime)} ago` : ahead !== undefined ? `in ${since(time.dateTime, true)}` : since(time.dateTime);
    if (time.textContent !== text) time.textContent = text;
  }
};
setInterval(() => { if (!document.hidden) tell(); }, 1000);

// ---- Live

let stream;
let beat;
let paused = sessionStorage.getItem("paused") === "yes";
const states = { live: "Live", paused: "Paused", waiting: "Reconnecting", stale: "Not up to date" };
const say = (state, why) => {
  const button = byId("live");
  if (!button) return;
  button.hidden = !view().dataset.live;
  button.dataset.state = state;
  button.setAttribute("aria-pressed", String(!paused));
  button.title = why ?? (paused ? "Stopped. Click to follow what happens." : "Follows what happens. Click to stop.");
  const label = button.querySelector("span");
  if (label.textContent !== states[state]) label.textContent = states[state];
};
const disconnect = () => {
  stream?.close();
  stream = undefined;
  clearTimeout(beat);
};
// A stream over which nothing comes, not even the beat of every 15 seconds, is dead without knowing it.
const alive = () => {
  clearTimeout(beat);
  beat = setTimeout(() => { disconnect(); connect(); }, 40_000);
};
function connect() {
  const url = view()?.dataset.live;
  if (stream && stream.asked === url && stream.readyState !== EventSource.CLOSED && !paused && !document.hidden) return;
  disconnect();
  if (!url || paused) return say("paused");
  if (document.hidden) return;
  say("waiting");
  const mine = new EventSource(url);
  mine.asked = url;
  stream = mine;
  alive();
  mine.addEventListener("update", (event) => {
    if (mine !== stream) return;
    alive();
    say("live");
    for (const change of JSON.parse(event.data)) {
      if (holds(change.id)) missed = true;
      else (change.order ? arrange : replace)(change);
    }
    tell();
    draw();
  });
  mine.addEventListener("stale", (event) => {
    if (mine !== stream) return;
    alive();
    say("stale", JSON.parse(event.data).reason);
  });
  mine.addEventListener("ended", () => {
    if (mine !== stream) return;
    disconnect();
    location.reload();
  });
  mine.addEventListener("error", () => {
    if (mine !== stream) return;
    say("waiting", "The connection is lost. It is tried again.");
    // The browser gives up after an answer like 503.
    if (mine.readyState === EventSource.CLOSED) {
      clearTimeout(beat);
      beat = setTimeout(() => { if (mine === stream) { disconnect(); connect(); } }, 5000);
    }
  });
}
document.addEventListener("visibilitychange", () => { if (document.hidden) disconnect(); else { tell(); connect(); } });

// ---- Theme

const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const toggleTheme = () => {
  const chosen = dark() ? "light" : "dark";
  document.documentElement.dataset.theme = chosen;
  document.cookie = `runlot_theme=${chosen}; Path=/; Max-Age=31536000; SameSite=Strict`;
};
new MutationObserver(() => draw(true)).observe(document.documentElement, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(true));

// ---- Dialogs

let opener;
const dialogs = () => {
  const dialog = byId("dialog");
  if (dialog && !dialog.matches(":modal")) {
    dialog.removeAttribute("open");
    dialog.showModal();
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      dialog.querySelector("a.button").click();
    });
  }
  if (!dialog && opener) {
    byId(opener)?.focus({ preventScroll: true });
    opener = undefined;
  }
};

// The command of a dialog does what its form would: a value that is not the usual one is a flag of it, or its argument.
const quote = (word) => (/^[\w\-./:@%+,]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
const told = (field) => {
  const { flag, without, suffix } = field.dataset;
  const value = field.value;
  if (flag === "") return ` ${quote(value)}`;
  if (value.trim() === "" || value === without) return "";
  return field.tagName === "SELECT" ? ` ${flag}` : ` ${flag} ${quote(value.trim() + suffix)}`;
};
document.addEventListener("input", (event) => {
  const dialog = event.target.closest("#dialog");
  const code = dialog?.querySelector(".command code");
  if (!code) return;
  const fields = [...dialog.querySelectorAll("[data-flag]")];
  const argument = fields.find((field) => field.dataset.flag === "");
  // What the server said, without the argument at its end.
  code.dataset.said ??= argument ? code.textContent.slice(0, -told({ dataset: argument.dataset, value: argument.defaultValue }).length) : code.textContent;
  code.textContent = [code.dataset.said, ...fields.filter((field) => field !== argument).map(told), argument ? told(argument) : ""].join("");
});

// ---- Copying, which has to work without TLS too

const copy = async (text) => {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hide";
  (byId("dialog") ?? document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("the browser does not copy");
};

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button, a");
  if (!button) return;
  if (button.id === "live") {
    paused = !paused;
    sessionStorage.setItem("paused", paused ? "yes" : "no");
    connect();
  } else if (button.id === "theme") {
    toggleTheme();
  } else if (button.hasAttribute("data-copy")) {
    const label = button.firstChild;
    try {
      await copy(button.parentElement.querySelector("code").textContent);
      label.nodeValue = "Copied";
    } catch {
      label.nodeValue = "Select it";
    }
    button.focus({ preventScroll: true });
    setTimeout(() => { label.nodeValue = "Copy"; }, 1500);
  } else if (button.search?.includes("ask=")) {
    opener = button.id;
  }
});

// ---- Forms that need no button

let typing;
document.addEventListener("change", (event) => {
  if (event.target.tagName === "SELECT") event.target.closest("form[data-auto]")?.requestSubmit();
});
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-auto]");
  if (!form || event.target.tagName !== "INPUT") return;
  clearTimeout(typing);
  typing = setTimeout(() => form.requestSubmit(), 150);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest("input, textarea, select, dialog") && byId("find")) {
    event.preventDefault();
    byId("find").select();
  }
});

// A parameter that says nothing is left out of the address.
document.addEventListener("htmx:config:request", (event) => {
  const { request } = event.detail.ctx;
  if (request.method !== "GET" || !(request.body instanceof FormData)) return;
  for (const [name, value] of [...request.body]) if (value === "") request.body.delete(name);
});

// ---- Navigation

let path = location.pathname;
document.addEventListener("htmx:before:swap", (event) => {
  // Where to be on the page is decided below.
  for (const task of event.detail.tasks) if (task.swapSpec) task.swapSpec.show = undefined;
});
const settle = () => {
  tell();
  draw();
  dialogs();
  search();
  connect();
};
document.addEventListener("htmx:after:swap", () => {
  tick();
  settle();
  if (location.pathname === path) return;
  path = location.pathname;
  if (!location.hash) window.scrollTo(0, 0);
  if (!byId("dialog")) document.querySelector("[autofocus], h1")?.focus({ preventScroll: true });
});
document.addEventListener("htmx:before:history:restore", (event) => {
  event.preventDefault();
  htmx.ajax("GET", event.detail.path, { source: view(), target: "#page", select: "#page", swap: "outerMorph" });
});
document.addEventListener("htmx:error", () => {
  byId("notice")?.replaceChildren(Object.assign(document.createElement("p"), { className: "notice bad", textContent: "The server does not answer. Try again." }));
});

document.documentElement.classList.add("js");
countTicks();
settle();
