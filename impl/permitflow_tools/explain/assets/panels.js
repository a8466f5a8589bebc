// The ledger, the step that was taken, the possible actions, and the variables.

/** All that the page of a run shows of a state. */
function viewsOfRun(player) {
  const { run } = player;
  const byId = (id) => document.getElementById(id);
  const choose = (choice) => player.choose(choice);
  if (!run.hasLedger) {
    byId("scene").parentElement.hidden = byId("ledgers").hidden = true;
    byId("variables").open = true;
    document.querySelector("main").prepend(byId("variables")); // it is the picture then
  }
  return [
    ...(run.hasLedger ? [new Scene(byId("scene"), run), new Ledgers(byId("ledgers"), run)] : []),
    new Panel(byId("step"), run, showStep),
    new Panel(byId("possible"), run, (section, shown, k) => showPossible(section, shown, k, choose)),
    new Panel(byId("passage"), run, showPassage),
    new Panel(byId("conclusions"), run, showConclusions),
    new Panel(document.querySelector("#variables tbody"), run, showVariables),
  ];
}

/** A part of the page that is made anew for each state. */
class Panel {
  constructor(section, run, fill) {
    Object.assign(this, { section, run, fill });
  }

  show(k) {
    this.fill(this.section, this.run, k);
  }
}

class Ledgers {
  constructor(section, run) {
    this.section = section;
    this.take(run);
  }

  /** Shows another run from now on. */
  take(run) {
    this.run = run;
    const { section } = this;
    section.replaceChildren();
    const heads = { rows: "row permit", barriers: "barrier permit", watermarks: "watermark permit" };
    this.parts = run.classes.map((name) => {
      const sum = make("p", { class: "sum" });
      const segments = Object.keys(run.places).map((place) => make("div", { class: `segment fill-${place}`, "data-place": place }));
      const bar = make("div", { class: "bar", "aria-hidden": "true", style: `--buf: ${run.buf[name]}` }, ...segments);
      if (run.buf[name] <= 64) bar.append(make("div", { class: "cells" }));
      const rows = Object.entries(run.places).map(([place, label]) =>
        make("li", { "data-place": place }, make("span", { class: `swatch fill-${place}` }), make("span", { class: "number" }), make("span", { class: "name" }, label)),
      );
      const isSmall = name !== "rows";
      const title = run.buf[name] === 1 ? `Where the ${heads[name]} is` : `Where the ${number(run.buf[name])} ${heads[name]}s are`;
      const head = make("div", { class: "ledger-head" }, make("h2", {}, title), sum);
      const list = make("ul", { class: "places" }, ...rows);
      section.append(make("div", { class: isSmall ? "ledger small" : "ledger", "data-class": name }, head, bar, list));
      return { name, sum, bar, segments, rows };
    });
  }

  show(k, isSmooth) {
    for (const { name, sum, bar, segments, rows } of this.parts) {
      const counts = this.run.counts(k, name);
      const before = k > 0 ? this.run.counts(k - 1, name) : counts;
      const total = Object.values(counts).reduce((left, right) => left + right);
      bar.classList.toggle("smooth", isSmooth);
      segments.forEach((segment) => {
        const count = counts[segment.dataset.place];
        const share = count / Math.max(total, 1);
        segment.classList.toggle("some", count > 0);
        segment.style.width = `${100 * share}%`;
        const isLabelled = name === "rows" && share * bar.clientWidth > number(count).length * 10 + 8;
        segment.replaceChildren(make("span", {}, isLabelled ? number(count) : ""));
      });
      rows.forEach((row) => {
        const place = row.dataset.place;
        row.classList.toggle("none", counts[place] === 0 && before[place] === 0);
        row.children[1].replaceChildren(number(counts[place]), ...changeOf(before[place], counts[place]));
      });
      const terms = Object.values(counts).map(number).join(" + ");
      sum.replaceChildren(`${terms} = `, make("b", {}, number(total)), total === this.run.buf[name] ? "" : ` instead of ${number(this.run.buf[name])}`);
      sum.classList.toggle("wrong", total !== this.run.buf[name]);
    }
  }
}

function changeOf(before, after) {
  if (before === after) return [];
  return [make("span", { class: "change" }, after > before ? `+${number(after - before)}` : `\u2212${number(before - after)}`)];
}

/** Which action was taken, by whom, and what it changed. */
function showStep(section, run, k) {
  const position = make("span", {}, k === 0 ? `State ${number(run.skipped)}` : `Step ${number(run.skipped + k)}: `);
  const heading = make("h2", { id: "step-heading" }, position);
  if (k === 0) {
    const text = run.skipped ? "The page begins here; earlier steps are left out." : run.beginning;
    section.replaceChildren(heading, make("p", { class: "does" }, text));
    return;
  }
  const action = run.action(k);
  heading.append(make("code", {}, run.call(k)), make("span", { class: "actor" }, action.actor));
  section.replaceChildren(heading, make("p", { class: "does" }, action.does), changes(run, k));
}

function changes(run, k) {
  if (!run.hasLedger) {
    const [before, after] = [run.valuesAt(k - 1), run.valuesAt(k)];
    const items = run.variables.flatMap(({ name }, index) =>
      run.changed(k, index) ? changedParts(before[index], after[index]).map(([old, now]) => make("li", {}, make("code", {}, name), ` ${old} \u2192 ${now}`)) : [],
    );
    return make("ul", { class: "changes" }, ...items);
  }
  const items = run.classes.flatMap((name) => {
    const [before, after] = [run.counts(k - 1, name), run.counts(k, name)];
    return Object.keys(run.places)
      .filter((place) => before[place] !== after[place])
      .map((place) => {
        const label = `${run.places[place]}${name === "rows" ? "" : ` (${name})`}`;
        return change(`fill-${place}`, label, before[place], after[place]);
      });
  });
  const [before, after] = [k - 1, k].map((at) => run.messagesAt(at).waiting.length);
  if (before !== after) items.unshift(change("fill-nothing", "waiting", before, after));
  return make("ul", { class: "changes" }, ...items);
}

/** Of a value that stands in parts, those that have changed. */
function changedParts(before, after) {
  const [old, now] = [before, after].map((text) => text.split(" | "));
  if (old.length !== now.length) return [[before, after]];
  return old.flatMap((part, index) => (part === now[index] ? [] : [[part, now[index]]]));
}

function change(fill, label, before, after) {
  return make("li", {}, make("span", { class: `swatch ${fill}` }), `${label} ${number(before)} \u2192 ${number(after)}`);
}

/** The operator as it stands in the specification; the next values of the variables that changed are marked. */
function showPassage(section, run, k) {
  section.hidden = k === 0;
  if (k === 0) return;
  const action = run.action(k);
  const changed = new Set(run.variables.filter((_, index) => run.changed(k, index)).map(({ name }) => `${name}'`));
  const lines = action.text.split("\n").map((line, index) => {
    const parts = line.split(/(\b\w+'|\\\*.*$)/).map((part) => {
      if (changed.has(part)) return make("mark", {}, part);
      return part.startsWith("\\*") ? make("span", { class: "comment" }, part) : part;
    });
    return make("span", { class: "line", "data-line": action.firstLine + index }, ...parts);
  });
  const heading = make("h2", { id: "passage-heading" }, make("code", {}, action.name), ` ${run.textOf} `, make("span", { class: "place" }, action.place));
  section.replaceChildren(heading, make("pre", { class: "text", tabindex: "0", "aria-labelledby": "passage-heading" }, make("code", {}, ...lines)));
}

/** What can happen now, and which guard stands in the way of the rest; `choose` is told the step that the reader takes. */
function showPossible(section, run, k, choose) {
  const isDead = run.isStuck(k);
  const choices = run.choices(k);
  section.classList.toggle("dead", isDead);
  const title = isDead ? "Nothing can move any more" : choices ? "What can happen now: choose a step" : "What the protocol can do now";
  const heading = make("h2", { id: "possible-heading", tabindex: "-1" }, title);
  const top = isDead ? make("div", { class: "verdict-note" }, heading, make("p", {}, "Each action of the protocol has a guard that is false:")) : heading;
  const names = (index) => steps(run, k, index, choices, choose);
  const [own, others] = [guards(run, k, names), application(run, k, names)];
  const end = run.isExplorable && choices === null ? [make("p", { class: "rim" }, "This page holds no states beyond this one: go back, or choose smaller numbers.")] : [];
  section.replaceChildren(top, ...(isDead ? [own, others] : [others, own]), ...end);
}

/** A possible action by its name, or as buttons if the reader may choose it. */
function steps(run, k, index, choices, choose) {
  const action = run.actions[index];
  const next = () => make("span", { class: "next" }, "comes next");
  if (choices === null) {
    const name = make("code", { class: "action" }, action.name);
    return [name, action.isEnvironment ? " \u2713" : "", ...(comesNext(run, k, action) ? [" ", next()] : [])];
  }
  return choices
    .filter((choice) => choice.action === index)
    .flatMap((choice) => {
      const button = make("button", { type: "button", class: "choice", "data-call": choice.call }, make("code", {}, choice.call));
      button.addEventListener("click", () => choose(choice));
      return choice.isNext ? [button, " ", next(), " "] : [button, " "];
    });
}

function guards(run, k, names) {
  const items = run.actions.flatMap((action, index) => {
    if (action.isEnvironment || run.absent.includes(index)) return [];
    const isEnabled = run.isEnabled(k, index);
    const reason = run.reason(k, index);
    const text = isEnabled ? make("span", {}, ...names(index)) : make("span", {}, make("code", { class: "action" }, action.name));
    if (!isEnabled && reason) text.append(": ", make("span", { class: "reason" }, reason));
    const sign = make("span", { class: "sign", title: isEnabled ? "possible" : "not possible" }, isEnabled ? "\u2713" : "\u2717");
    return [make("li", { class: isEnabled ? "enabled" : "disabled", "data-action": action.name }, sign, text)];
  });
  return make("ul", { class: "guards" }, ...items);
}

const comesNext = (run, k, action) => k < run.last && run.action(k + 1) === action;

/** What the application at the sender may do besides. */
function application(run, k, names) {
  if (run.reason(k, 0) === undefined) return "";
  const may = run.actions.flatMap((action, index) => (action.isEnvironment && run.reason(k, index) === null ? [index] : []));
  const told = may.flatMap((action, index) => [index && !run.isExplorable ? ", " : "", ...names(action)]);
  return make("p", { class: "application" }, may.length ? "The application may: " : "The application can only wait.", ...told);
}

/** What follows from the last state. */
function showConclusions(section, run, k) {
  const found = run.conclusionsAt(k);
  section.hidden = found.length === 0;
  const parts = found.map(({ heading, items }, index) => {
    const isBad = run.verdict === "invalid" && index === 0;
    const list = make("ul", {}, ...items.map((item) => make("li", {}, item)));
    return make("div", { class: isBad ? "conclusion verdict-note" : "conclusion" }, make("h2", {}, heading), list);
  });
  section.replaceChildren(...parts);
}

/** Every variable of the specification with its value, in the specification's notation. */
function showVariables(body, run, k) {
  const told = run.hasLedger ? ledgerValues(run, k) : Object.fromEntries(run.valuesAt(k).map((text, index) => [run.variables[index].name, text]));
  const lines = run.variables.flatMap(({ name, remark }, index) => {
    // Chunk numbers are not told: chunks are anonymous here.
    if (!(name in told) || run.absentVariables.includes(name)) return [];
    const isChanged = run.changed(k, index);
    return [make("tr", isChanged ? { class: "changed" } : {}, make("th", { scope: "row" }, make("code", {}, name)), make("td", {}, ...(run.hasLedger ? [make("code", {}, told[name])] : drawn(told[name]))), make("td", {}, remark))];
  });
  body.replaceChildren(...lines);
}

const MOST_CELLS_OF_A_NUMBER = 24;

/** A value to be taken in at a glance: a small number as cells, a queue as boxes, parts below each other. */
function drawn(text) {
  if (/^\d+$/.test(text) && Number(text) <= MOST_CELLS_OF_A_NUMBER) {
    const cells = make("span", { class: "cells-of", "aria-hidden": "true" }, ...Array.from({ length: Number(text) }, () => make("i")));
    return [make("code", { class: "count" }, text), cells];
  }
  const queue = /^\u27e8([^\u27e8\u27e9]+)\u27e9$/.exec(text);
  if (queue) return queue[1].split(", ").flatMap((item) => [make("code", { class: "item" }, item), " "]);
  return text.split(" | ").map((part) => make("code", { class: "part" }, part));
}

/** The values that follow from where each message and each permit is. */
function ledgerValues(run, k) {
  const places = run.messagesAt(k);
  const { kind, cost, rows } = run.messages;
  const message = (i) => (kind[i] === "chunk" ? (cost[i] === rows[i] ? number(cost[i]) : `${number(rows[i])} rows for ${number(cost[i])}`) : kind[i]);
  const queue = (items) => `\u27e8${items.slice(0, 60).join(", ")}${items.length > 60 ? ", \u2026" : ""}\u27e9`;
  const permits = (of) => run.classes.map((name) => `${name} ${number(of(name))}`).join(", ");
  const line = places.waiting.filter((i) => kind[i] !== "watermark");
  return {
    waiting: queue(line.map(message)),
    watermarkPending: run.pending.length ? String(run.pending[k]) : "-1",
    newestWatermark: `"${run.newestWatermark(k)}"`,
    permits: permits((name) => run.ledger[name].permits[k]),
    wire: queue(places.wire.map(message)),
    inbox: queue(places.inbox.map(message)),
    unreturned: number(run.ledger.rows.unreturned[k]),
    grants: queue(run.returnsAt(k).map((i) => permits((name) => run.returns[name][i]))),
  };
}
