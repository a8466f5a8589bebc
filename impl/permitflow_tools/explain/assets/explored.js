// A run that the reader makes, along states and steps that the model computed before.  Nothing here computes a rule.

/** At which step a chunk came to a place, by the column that says so. */
const ARRIVED = { waiting: "offered", wire: "sent", inbox: "delivered" };

class ExploredRun extends Run {
  isExplorable = true;

  /** `path` has the moves and the states that they lead to, in turn. */
  constructor(data, path) {
    const moves = path.filter((_, index) => index % 2 === 0);
    const states = [0, ...path.filter((_, index) => index % 2 === 1)];
    super({ ...data, ...columnsAlong(data, states, moves) });
    Object.assign(this, { data, path, moves, states });
    const isGiven = path.length > 0 && String(path) === String(data.graph.run);
    if (!isGiven) this.verdict = this.isStuck(this.last) ? "stuck" : "open";
    this.isGiven = isGiven;
  }

  call(k) {
    return this.#told(this.moves[k - 1]);
  }

  #told(move) {
    const [action, ...values] = this.data.tables.moves[move];
    return this.actions[action].name + (values.length ? `(${values.map(number).join(", ")})` : "");
  }

  isStuck(k) {
    return this.data.graph.stuck.includes(this.states[k]);
  }

  conclusionsAt(k) {
    if (k < this.last || !(this.isGiven || this.isStuck(k))) return [];
    const { shortest } = this.data;
    if (!shortest) return this.conclusions;
    const own = k > shortest ? ` A shortest way there has ${number(shortest)}: can you find it?` : " There is no shorter way.";
    return [{ heading: "You are stuck", items: [`After ${plural(k, "step")}.${own}`] }, ...this.conclusions];
  }

  /** The steps out of state `k`; null if the page holds no more states. */
  choices(k) {
    const way = this.data.graph.steps[this.states[k]];
    if (way === null) return null;
    const found = [];
    for (let index = 0; index < way.length; index += 2) {
      const [move, target] = [way[index], way[index + 1]];
      const isNext = this.moves[k] === move && this.states[k + 1] === target;
      found.push({ action: this.data.tables.moves[move][0], call: this.#told(move), move, target, isNext });
    }
    return found;
  }

  /** Which of its choices was taken in each state before `k`. */
  taken(k) {
    return this.moves.slice(0, k).map((_, before) => this.choices(before).findIndex(({ isNext }) => isNext));
  }

  /** The run up to state `k`, and another step. */
  branch(k, { move, target }) {
    return new ExploredRun(this.data, [...this.path.slice(0, 2 * k), move, target]);
  }
}

/** The moves and states of a run that takes these choices, until one is not there. */
function pathAlong({ steps }, choices) {
  const path = [];
  for (const choice of choices) {
    const way = steps[path.at(-1) ?? 0] ?? [];
    if (2 * choice >= way.length) break;
    path.push(...way.slice(2 * choice, 2 * choice + 2));
  }
  return path;
}

const maskOf = (bits) => bits.reduce((mask, isSet, position) => mask + (isSet ? 2 ** position : 0), 0);

/** The same columns as those of a run that the model took. */
function columnsAlong({ graph, tables, actions, places }, states, moves) {
  const views = states.map((state) => tables.views[graph.states[state]]);
  const taken = moves.map((move) => tables.moves[move]);
  const reasons = states.map((state) => tables.reasonRows[graph.reasons[state]]);
  return {
    steps: {
      action: taken.map(([action]) => action),
      argument: taken.map(([, argument]) => argument ?? NEVER),
      changed: taken.map((_, k) => maskOf(views[k + 1][0].map((text, variable) => text !== views[k][0][variable]))),
    },
    enabled: reasons.map((row) => maskOf(row.map((reason, action) => reason === NEVER && !actions[action].isEnvironment))),
    reasons,
    reasonTexts: tables.reasonTexts,
    valueTexts: tables.viewTexts,
    values: views.map(([texts]) => texts),
    ...(places && followed(views, Object.keys(places))),
  };
}

/** The ledger of each state, and the way of each chunk and each return: all leave a place in the order in which they came. */
function followed(views, places) {
  const messages = Object.fromEntries(["kind", "rows", "cost", "offered", "sent", "delivered", "consumed", "withdrawn"].map((name) => [name, []]));
  const returns = { rows: [], barriers: [], watermarks: [], returned: [], arrived: [] };
  const line = { waiting: [], wire: [], inbox: [], grants: [] };
  views.forEach(([, , waiting, wire, inbox, grants], k) => {
    const now = { waiting, wire, inbox };
    let moving = null;
    for (const place in now) if (now[place].length < line[place].length) moving = line[place].shift();
    for (const place in now) {
      if (now[place].length <= line[place].length) continue;
      if (moving === null) {
        moving = messages.kind.length;
        const [rows, cost] = now[place].at(-1);
        for (const [name, value] of Object.entries({ kind: "chunk", rows, cost })) messages[name].push(value);
        for (const name of ["offered", "sent", "delivered", "consumed", "withdrawn"]) messages[name].push(NEVER);
      }
      messages[ARRIVED[place]][moving] = k;
      line[place].push(moving);
      moving = null;
    }
    if (moving !== null) messages.consumed[moving] = k;
    if (grants.length < line.grants.length) returns.arrived[line.grants.shift()] = k;
    if (grants.length > line.grants.length) {
      line.grants.push(returns.rows.length);
      const lot = { rows: grants.at(-1), barriers: 0, watermarks: 0, returned: k, arrived: NEVER };
      for (const [name, value] of Object.entries(lot)) returns[name].push(value);
    }
  });
  const rows = Object.fromEntries(places.map((place, index) => [place, views.map(([, ledger]) => ledger[index])]));
  return { ledger: { rows }, messages, returns, pending: [] };
}
