// A graph of stages and a run of it: what each stage holds, and what is on each arc.  Nothing here computes a rule.

class StagesRun {
  hasLedger = false;
  skipped = 0;

  constructor(data) {
    Object.assign(this, data);
    this.last = this.steps.length - 1;
  }

  call(k) {
    return this.steps[k][1];
  }

  summary(k) {
    const held = this.stages.flatMap((name, stage) => (this.held[k][stage] ? [`${name} holds ${number(this.held[k][stage])}`] : []));
    return `Step ${number(k)}: ${this.call(k)}. ${held.join(", ") || "No stage holds anything"}.`;
  }
}

/** One drawing by Graphviz: the last line of a stage says what it holds; the middle of an arc what is on it. */
class StagesDrawing {
  constructor(frame, run) {
    this.frame = frame;
    this.svg = frame.querySelector("svg");
    this.run = run;
    const prefix = frame.classList.contains("wide") ? "LR" : "TB";
    const find = (kind, count) => Array.from({ length: count }, (_, index) => document.getElementById(`${prefix}-${kind}-${index}`));
    this.stages = find("stage", run.stages.length);
    this.counts = this.stages.map((stage) => [...stage.querySelectorAll("text")].at(-1));
    this.tokens = find("arc", run.arcs[0].length).map((arc) => draw(arc, "g"));
  }

  show(k) {
    const { run } = this;
    this.svg.classList.toggle("at-end", k === run.last);
    this.stages.forEach((stage, index) => {
      const count = run.held[k][index];
      stage.classList.toggle("moved", run.steps[k][0] === index);
      stage.classList.toggle("holds", count > 0);
      this.counts[index].textContent = count ? `holds ${number(count)}` : "holds none";
    });
    this.tokens.forEach((token, index) => {
      const what = run.arcs[k][index];
      token.setAttribute("class", `token ${what}`);
      token.innerHTML = run.tokens[what] ?? "";
      if (what) token.setAttribute("transform", this.#place(token.parentElement.querySelector("path")));
    });
    const seen = k === run.last && run.ring.length ? run.ring[0] : run.steps[k][0];
    if (seen >= 0) this.#bringIntoView(this.stages[seen]);
  }

  /** Scrolls the drawing, never the page. */
  #bringIntoView(stage) {
    const [frame, place] = [this.frame.getBoundingClientRect(), stage.getBoundingClientRect()];
    if (place.left < frame.left || place.right > frame.right) this.frame.scrollLeft += place.left - frame.left - frame.width / 4;
  }

  /** The middle of an arc; what is on it points along. */
  #place(path) {
    const length = path.getTotalLength();
    const [before, middle, after] = [-2, 0, 2].map((by) => path.getPointAtLength(length / 2 + by));
    const angle = (Math.atan2(after.y - before.y, after.x - before.x) * 180) / Math.PI;
    return `translate(${middle.x.toFixed(1)} ${middle.y.toFixed(1)}) rotate(${angle.toFixed(1)})`;
  }
}

/** What each stage holds, as a column of numbers. */
class StagesTable {
  constructor(body, run) {
    this.run = run;
    this.rows = [...body.rows];
  }

  show(k) {
    this.rows.forEach((row, index) => {
      row.cells[3].textContent = number(this.run.held[k][index]);
      row.classList.toggle("changed", k > 0 && this.run.held[k][index] !== this.run.held[k - 1][index]);
    });
  }
}

class StageStep {
  constructor(section, run) {
    section.hidden = false;
    Object.assign(this, { section, run });
  }

  show(k) {
    const { run } = this;
    const [stage, text] = run.steps[k];
    const heading = make("h2", { id: "step-heading" }, k ? `Step ${number(k)}: ` : "The beginning", ...(stage < 0 ? [] : [make("code", {}, run.stages[stage])]));
    const changes = k === 0 ? [] : run.stages.flatMap((name, index) => this.#change(name, run.held[k - 1][index], run.held[k][index]));
    const last = k === run.last && run.atTheEnd ? [make("p", { class: "stuck-note" }, run.atTheEnd)] : [];
    this.section.replaceChildren(heading, make("p", { class: "does" }, text), make("ul", { class: "changes" }, ...changes), ...last);
  }

  #change(name, before, after) {
    return before === after ? [] : [make("li", {}, make("code", {}, name), ` holds ${number(before)} \u2192 ${number(after)}`)];
  }
}

const data = JSON.parse(document.getElementById("blueprint").textContent);
document.documentElement.classList.remove("no-script");
if (data.steps.length > 1) {
  const frames = [...document.querySelectorAll(".blueprint-scroll")];
  const views = (run) => [
    ...frames.map((frame) => new StagesDrawing(frame, run)),
    new StageStep(document.getElementById("step"), run),
    new StagesTable(document.querySelector("#stages tbody"), run),
  ];
  new Player(new StagesRun(data), (player) => views(player.run)).start();
} else {
  document.querySelector(".timeline").hidden = true;
}
