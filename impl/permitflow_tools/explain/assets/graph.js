// Goes through a state graph: choose a state, see what holds there, how one gets there, and where one can go.

const NOWHERE = -1;
const READABLE = 0.6; // a page opens no smaller; numbers are 7 pixels high then

class GraphPage {
  constructor(data) {
    Object.assign(this, data);
    this.svg = document.querySelector(".graph-scroll .graph");
    this.scroller = document.querySelector(".graph-scroll");
    this.panel = document.getElementById("state");
    this.isDrawn = this.svg instanceof SVGElement; // else it is a list, without steps
    this.nodes = this.states.map((_, index) => document.getElementById(`state-${index}`));
    this.lines = this.isDrawn ? this.edges.map((_, index) => document.getElementById(`edge-${index}`)) : [];
    this.out = this.states.map(() => []);
    this.edges.forEach(([source], index) => this.out[source].push(index));
    this.zoom = 1;
    this.#listen();
  }

  #listen() {
    this.nodes.forEach((node, index) => node.addEventListener("click", () => this.choose(index)));
    document.getElementById("larger").addEventListener("click", () => this.resize(this.zoom * 1.25));
    document.getElementById("smaller").addEventListener("click", () => this.resize(this.zoom / 1.25));
    document.getElementById("fit").addEventListener("click", () => this.fit());
    const next = document.getElementById("next-stuck");
    next.hidden = this.stuck.length === 0;
    next.addEventListener("click", () => this.choose(this.stuck.find((state) => state > this.chosen) ?? this.stuck[0]));
    addEventListener("keydown", (event) => this.#key(event));
    addEventListener("hashchange", () => this.#goToAddress());
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = {
      ArrowRight: () => this.#follow(),
      ArrowLeft: () => this.chosen && this.choose(this.edges[this.arrivals[this.chosen]][0]),
      ArrowUp: () => this.#beside(-1),
      ArrowDown: () => this.#beside(1),
      Home: () => this.choose(0),
      "+": () => this.resize(this.zoom * 1.25),
      "-": () => this.resize(this.zoom / 1.25),
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    moves[event.key]();
  }

  /** Takes the first step that leads further away from the beginning, else the first there is. */
  #follow() {
    const targets = this.out[this.chosen].map((index) => this.edges[index][3]);
    const further = targets.find((state) => this.depths[state] > this.depths[this.chosen]) ?? targets[0];
    if (further !== undefined) this.choose(further);
  }

  #beside(direction) {
    const column = this.columns[this.depths[this.chosen]];
    const wanted = column[column.indexOf(this.chosen) + direction];
    if (wanted !== undefined) this.choose(wanted);
  }

  #goToAddress() {
    const match = /^#state=(\d+)$/.exec(location.hash);
    if (match) this.choose(Math.min(this.states.length - 1, Number(match[1])));
    return match !== null;
  }

  /** The edges of a shortest way to a state, in order. */
  way(state) {
    const edges = [];
    for (let at = state; this.arrivals[at] !== NOWHERE; at = this.edges[edges[0]][0]) edges.unshift(this.arrivals[at]);
    return edges;
  }

  choose(state) {
    this.chosen = state;
    const way = new Set(this.way(state));
    const out = new Set(this.out[state]);
    this.svg.classList.add("choosing");
    this.nodes.forEach((node, index) => node.classList.toggle("chosen", index === state));
    this.lines.forEach((line, index) => {
      line.classList.toggle("way", way.has(index));
      line.classList.toggle("out", out.has(index));
    });
    this.#tell(state);
    this.#bringIntoView(this.nodes[state]);
    if (location.hash !== `#state=${state}`) history.replaceState(null, "", `#state=${state}`);
  }

  /** Scrolls the drawing, never the page. */
  #bringIntoView(node) {
    const frame = this.scroller.getBoundingClientRect();
    const place = node.getBoundingClientRect();
    const margin = 70;
    this.scroller.scrollLeft += Math.min(0, place.left - frame.left - margin) + Math.max(0, place.right - frame.right + margin);
    this.scroller.scrollTop += Math.min(0, place.top - frame.top - margin) + Math.max(0, place.bottom - frame.bottom + margin);
  }

  #tell(state) {
    const isStuck = this.stuck.includes(state);
    const parts = [make("h2", { id: "state-heading" }, `State ${number(state)}`)];
    parts.push(make("p", {}, plural(this.depths[state], "step"), " from the beginning"));
    if (isStuck) parts.push(make("p", { class: "stuck-note" }, "Stuck: something waits for ever."));
    if (this.ledger) parts.push(this.#bar(state));
    parts.push(this.#variables(state));
    parts.push(make("h3", {}, "Steps out of it"));
    parts.push(this.out[state].length ? this.#ways(this.out[state], 3) : make("p", {}, "None."));
    if (isStuck) parts.push(...this.#guards(state));
    if (state) parts.push(make("h3", {}, "A shortest way here"), this.#ways(this.way(state), 3));
    this.panel.replaceChildren(...parts);
  }

  #bar(state) {
    const segments = Object.entries(this.places).map(([place, label], index) => {
      const count = this.ledger[state][index];
      const segment = make("div", { class: `segment fill-${place}`, style: `width: ${(100 * count) / this.buf}%`, title: `${label} ${number(count)}` });
      segment.textContent = count ? number(count) : "";
      return segment;
    });
    return make("div", { class: "bar", role: "img", "aria-label": Object.values(this.places).map((label, index) => `${label} ${this.ledger[state][index]}`).join(", ") }, ...segments);
  }

  #variables(state) {
    const rows = this.variables.map((name, index) => make("tr", {}, make("th", { scope: "row" }, make("code", {}, name)), make("td", {}, make("code", {}, this.states[state][index]))));
    return make("table", {}, make("tbody", {}, ...rows));
  }

  #ways(edges, end) {
    const items = edges.map((index) => {
      const edge = this.edges[index];
      const button = make("button", { type: "button", "data-target": edge[end] }, edge[2] === "" ? this.actions[edge[1]] : `${this.actions[edge[1]]}(${edge[2]})`);
      button.addEventListener("click", () => this.choose(edge[end]));
      return make("li", {}, button);
    });
    return make("ul", { class: "ways" }, ...items);
  }

  #guards(state) {
    const items = this.reasons[state].map(([action, sentence]) => make("li", {}, make("span", { class: "sign" }, "\u2717"), make("span", {}, make("code", {}, action), ": ", sentence)));
    return [make("h3", {}, "Each action of the protocol has a guard that is false"), make("ul", { class: "guards" }, ...items)];
  }

  resize(zoom) {
    if (!this.isDrawn) return;
    this.zoom = Math.min(4, Math.max(0.02, zoom));
    this.svg.style.width = `${this.width * this.zoom}px`;
    if (this.chosen !== undefined) this.#bringIntoView(this.nodes[this.chosen]);
  }

  /** As large as fits, but not larger than drawn. */
  fit(least = 0) {
    if (!this.isDrawn) return;
    const { width, height } = this.svg.viewBox.baseVal;
    const share = Math.min(this.scroller.clientWidth / width, this.scroller.clientHeight / height);
    this.resize(Math.min(1, Math.max(least, share)));
  }

  start() {
    document.documentElement.classList.remove("no-script");
    document.querySelector(".graph-tools").hidden = false;
    this.panel.hidden = false;
    if (this.isDrawn) this.width = this.svg.viewBox.baseVal.width;
    for (const id of ["smaller", "larger", "fit"]) document.getElementById(id).hidden = !this.isDrawn;
    this.fit(READABLE);
    if (!this.#goToAddress()) this.choose(this.stuck[0] ?? 0);
  }
}

new GraphPage(JSON.parse(document.getElementById("graph").textContent)).start();
