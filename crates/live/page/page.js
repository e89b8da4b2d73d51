// The page of a running command: readings by server-sent events in, graphs and tables out.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
// Points of a graph that is not full yet: seconds.
const POINTS_MIN = 2;
// Points that are kept, as the command keeps them.
const POINTS_MAX = 600;
const [WIDTH, HEIGHT] = [600, 100];

const by = (id) => document.getElementById(id);
const made = (name, text = "") => Object.assign(document.createElement(name), { textContent: text });

let token = "";
let last = null;
let isFrozen = false;
// Points of each graph by its name, the oldest first, and the number of the next one.
const points = new Map();
let nextPoint = 0;
// Of each table by its title: its element, and the column that it is sorted by.
const tables = new Map();

function say(text) {
  by("message").textContent = text;
}

// The address has the token behind #, which browsers do not send. A reload keeps it.
function readToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  token = sessionStorage.getItem("token") ?? "";
  by("login").hidden = token !== "";
}

async function order(path, body = "") {
  try {
    const headers = { Authorization: `Bearer ${token}` };
    const response = await fetch(path, { method: "POST", headers, body });
    say((await response.text()).trim());
    if (response.status === 403) by("login").hidden = false;
  } catch {
    say("no answer: the command has ended, or cannot be reached");
  }
}

function addPoints(message) {
  if (message.first_point !== nextPoint) {
    points.clear();
  }
  let added = 0;
  for (const graph of message.graphs) {
    added = graph.points.length;
    const kept = points.get(graph.name) ?? [];
    kept.push(...graph.points);
    points.set(graph.name, kept.slice(-POINTS_MAX));
  }
  nextPoint = message.first_point + added;
}

function figure(name) {
  const found = document.querySelector(`svg[data-graph="${name}"]`);
  if (found) return found.closest("figure");
  const [element, svg, scale] = [made("figure"), document.createElementNS(SVG, "svg"), made("p")];
  const [plot, heights] = [made("div"), made("div")];
  svg.dataset.graph = name;
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  scale.className = "scale";
  scale.append(made("span"), made("span"), made("span", "now"));
  plot.className = "plot";
  heights.className = "heights";
  plot.append(svg, heights);
  element.append(made("figcaption"), plot, scale);
  return element;
}

function shape(svg, name, corners) {
  const element = document.createElementNS(SVG, name);
  element.setAttribute("points", corners.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "));
  svg.append(element);
  return element;
}

// Puts a part of the page at its place, unless it is there, where it keeps the focus.
function place(parent, element, index) {
  if (parent.children[index] !== element) parent.insertBefore(element, parent.children[index] ?? null);
}

function drawGraph(graph, index) {
  const element = figure(graph.name);
  place(by("graphs"), element, index);
  const [caption, plot, scale] = element.children;
  const [svg, heights] = plot.children;
  const values = points.get(graph.name);
  const present = values.filter((point) => point !== null);
  const highest = present.reduce((most, point) => (most && most[0] >= point[0] ? most : point), null);
  const top = graph.scale.at(-1)[0];
  const count = Math.max(values.length, POINTS_MIN);
  const corner = (point, index) => [
    ((count - values.length + index) * WIDTH) / Math.max(count - 1, 1),
    HEIGHT - (HEIGHT * point[0]) / top,
  ];
  // Lines break between the parts only, not between a number and its unit.
  const parts = graph.title.split(/( {2})/);
  caption.replaceChildren(...parts.map((part, index) => (index % 2 ? part : made("span", part))));
  svg.replaceChildren();
  for (const [height] of graph.scale) {
    const y = HEIGHT - (HEIGHT * height) / top;
    shape(svg, "polyline", [[0, y], [WIDTH, y]]).setAttribute("class", "grid");
  }
  heights.replaceChildren(...graph.scale.map(([height, text]) => {
    const label = made("span", text);
    label.style.bottom = `${(100 * height) / top}%`;
    return label;
  }));
  // A line for each part without a gap.
  let part = [];
  for (const [index, point] of [...values, null].entries()) {
    if (point !== null) {
      part.push(corner(point, index));
      continue;
    }
    if (part.length > 0) {
      if (part.length === 1) part.unshift([part[0][0] - WIDTH / count, part[0][1]]);
      shape(svg, "polygon", [[part[0][0], HEIGHT], ...part, [part.at(-1)[0], HEIGHT]]);
      shape(svg, "polyline", part);
    }
    part = [];
  }
  const text = highest ? `highest ${highest[1]}` : "no value yet";
  scale.children[0].textContent = `${count} s ago`;
  scale.children[1].textContent = text;
  svg.setAttribute("aria-label", `${graph.title}. ${text} in the last ${values.length} seconds`);
}

// 12,000 and 1.500 Mpps as numbers; unknown counts are last.
function numberOf(text) {
  const found = text.match(/^([\d,.]+) ?([kMGT]?)/);
  const factors = { "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };
  return found ? Number(found[1].replaceAll(",", "")) * factors[found[2]] : -1;
}

function tableOf(table) {
  const found = tables.get(table.title);
  if (found) return found;
  const [scroll, element, head, names] = [made("div"), made("table"), made("thead"), made("tr")];
  const entry = { element, scroll, sort: null };
  for (const [column, name] of table.header.entries()) {
    const cell = made("th");
    cell.scope = "col";
    if (column < table.key_count) {
      cell.className = "key";
      cell.textContent = name;
    } else {
      const button = Object.assign(made("button", name), { type: "button" });
      button.addEventListener("click", () => {
        entry.sort = entry.sort === column ? null : column;
        draw();
      });
      cell.append(button);
    }
    names.append(cell);
  }
  head.append(names);
  element.append(made("caption", table.title), head, made("tbody"));
  Object.assign(scroll, { className: "scroll", tabIndex: 0 });
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", table.title);
  scroll.append(element);
  tables.set(table.title, entry);
  return entry;
}

function row(cells, keyCount) {
  const element = made("tr");
  for (const [column, text] of cells.entries()) {
    const cell = made("td", text);
    if (column < keyCount) cell.className = "key";
    element.append(cell);
  }
  return element;
}

function drawTable(table, index) {
  const { element, scroll, sort } = tableOf(table);
  // The filter is the first.
  place(by("tables"), scroll, index + 1);
  const filter = by("filter").value;
  const isWanted = (cells) => cells.slice(0, table.key_count).some((key) => key.includes(filter));
  const rows = table.rows.filter((cells) => filter === "" || isWanted(cells));
  if (sort !== null) rows.sort((a, b) => numberOf(b[sort]) - numberOf(a[sort]));
  for (const [column, cell] of [...element.tHead.rows[0].cells].entries()) {
    cell.toggleAttribute("aria-sort", column === sort);
    if (column === sort) cell.setAttribute("aria-sort", "descending");
  }
  element.tBodies[0].replaceChildren(...rows.map((cells) => row(cells, table.key_count)));
}

function drawHistogram(histogram) {
  const element = by("histogram");
  element.hidden = !histogram;
  if (!histogram) return;
  element.querySelector("summary").textContent = `Histogram: ${histogram.title}`;
  const rows = histogram.rows.map(([bound, count, share]) => {
    const line = row([bound, count, `${share.toFixed(2)} %`], 0);
    const [cell, meter] = [made("td"), made("meter")];
    Object.assign(meter, { max: 100, value: share, ariaHidden: "true" });
    cell.append(meter);
    line.append(cell);
    return line;
  });
  element.querySelector("tbody").replaceChildren(...rows);
}

function showState(state, text = state) {
  by("state").dataset.state = state;
  // A screen reader reads it when it changes.
  if (by("state").textContent !== text) by("state").textContent = text;
}

let isLost = false;

function draw() {
  if (!last) return;
  by("command").textContent = `wirerate ${last.command}`;
  document.title = `${last.command} ${last.state}: wirerate`;
  if (!isLost) showState(last.state);
  by("elapsed").textContent = last.elapsed;
  by("target").textContent = last.target ? `${last.target} requested` : "";
  by("place").textContent = last.netns ? `${last.device} in ${last.netns}` : last.device;
  // A receiver has no rate, and a search sets its rates itself.
  by("pace").hidden = !last.has_rate;
  by("pause").textContent = last.state === "paused" ? "Resume" : "Pause";
  const names = last.graphs.map((graph) => graph.name);
  for (const element of [...by("graphs").children]) {
    if (!names.includes(element.querySelector("svg").dataset.graph)) element.remove();
  }
  last.graphs.forEach(drawGraph);
  const titles = last.tables.map((table) => table.title);
  for (const [title, entry] of tables) entry.scroll.hidden = !titles.includes(title);
  last.tables.forEach(drawTable);
  by("filter").parentElement.hidden = last.tables.length === 0;
  drawHistogram(last.histogram);
}

function connect() {
  const source = new EventSource("view");
  source.addEventListener("view", (event) => {
    const message = JSON.parse(event.data);
    addPoints(message);
    last = message;
    isLost = false;
    if (isFrozen) showState(message.state);
    else draw();
  });
  source.addEventListener("end", (event) => {
    source.close();
    isFrozen = false;
    isLost = false;
    draw();
    const { report, html } = JSON.parse(event.data);
    showState("ended");
    for (const element of by("control").querySelectorAll("button, input")) element.disabled = true;
    say("the run has ended; the numbers are its last ones");
    by("end").hidden = report === "";
    by("report").textContent = report;
    // The server is gone, so the file comes from here.
    by("save").href = URL.createObjectURL(new Blob([html], { type: "text/html" }));
  });
  source.addEventListener("open", () => {
    if (by("state").dataset.state === "lost") say("connected again");
  });
  source.addEventListener("error", () => {
    isLost = true;
    const isOver = source.readyState === EventSource.CLOSED;
    showState("lost", isOver ? "not connected" : "connection lost, trying again");
    if (isOver) say("the command refused the connection; reload the page to try again");
  });
}

by("pause").addEventListener("click", () => order(last?.state === "paused" ? "resume" : "pause"));
by("slower").addEventListener("click", () => order("rate", "-10%"));
by("faster").addEventListener("click", () => order("rate", "+10%"));
by("stop").addEventListener("click", () => order("stop"));
by("control").addEventListener("submit", (event) => {
  event.preventDefault();
  order("rate", by("rate").value);
});
by("freeze").addEventListener("click", () => {
  isFrozen = !isFrozen;
  by("freeze").setAttribute("aria-pressed", String(isFrozen));
  if (!isFrozen) draw();
});
by("filter").addEventListener("input", draw);
by("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", by("token").value);
  readToken();
  say("");
});
readToken();
connect();
