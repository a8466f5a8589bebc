// The run: columns of numbers, as they come from the model.  Nothing here computes a rule of the protocol.

const NEVER = -1;

class Run {
  isExplorable = false;

  constructor(data) {
    Object.assign(this, data);
    this.last = this.steps.action.length;
    this.hasLedger = "ledger" in data; // else the variables are all that is shown of a state
    this.classes = Object.keys(this.ledger ?? {});
  }

  /** Which action led to state `k`; null for the first. */
  action(k) {
    return k === 0 ? null : this.actions[this.steps.action[k - 1]];
  }

  /** The action's name with its argument. */
  call(k) {
    const argument = this.steps.argument[k - 1];
    return this.action(k).name + (argument === NEVER ? "" : `(${number(argument)})`);
  }

  /** Did the step to state `k` change the variable of this number? */
  changed(k, variable) {
    return k > 0 && bit(this.steps.changed[k - 1], variable);
  }

  isEnabled(k, action) {
    return bit(this.enabled[k], action);
  }

  /** Why an action is not possible: a text, or null if it is; undefined where the page does not hold it. */
  reason(k, action) {
    const row = this.reasons[k - (this.last + 1 - this.reasons.length)];
    if (row === undefined) return undefined;
    return row[action] === NEVER ? null : this.reasonTexts[row[action]];
  }

  /** Does it end here, and is nothing possible any more? */
  isStuck(k) {
    return k === this.last && this.verdict === "stuck";
  }

  /** What follows from state `k`, if it is the last. */
  conclusionsAt(k) {
    return k === this.last ? this.conclusions : [];
  }

  /** The steps that the reader may choose in state `k`; null where the page holds none. */
  choices() {
    return null;
  }

  /** The numbers of one class in state `k`, place by place. */
  counts(k, name) {
    return Object.fromEntries(Object.keys(this.places).map((place) => [place, this.ledger[name][place][k]]));
  }

  /** The value of each variable in state `k`, as a text. */
  valuesAt(k) {
    return this.values[k].map((text) => this.valueTexts[text]);
  }

  /** The messages in each place in state `k`, the next to leave first. */
  messagesAt(k) {
    const { kind, offered, sent, delivered, consumed, withdrawn } = this.messages;
    const isOver = (column, i) => column[i] !== NEVER && column[i] <= k;
    const places = { waiting: [], wire: [], inbox: [] };
    let consumedRows = 0;
    for (let i = 0; i < kind.length && offered[i] <= k; i++) {
      if (isOver(consumed, i)) consumedRows += this.messages.rows[i];
      else if (isOver(delivered, i)) places.inbox.push(i);
      else if (isOver(sent, i)) places.wire.push(i);
      else if (!isOver(withdrawn, i)) places.waiting.push(i);
    }
    // A later message may overtake a watermark: on the wire the order is that of sending.
    places.wire.sort((a, b) => sent[a] - sent[b] || a - b);
    places.inbox.sort((a, b) => sent[a] - sent[b] || a - b);
    return { ...places, consumedRows };
  }

  /** Where the watermark is that was offered last, in the specification's words. */
  newestWatermark(k) {
    const { kind, offered, sent, consumed } = this.messages;
    const newest = kind.findLastIndex((name, i) => name === "watermark" && offered[i] <= k);
    const isOver = (column) => column[newest] !== NEVER && column[newest] <= k;
    if (newest < 0 || isOver(consumed)) return "heard";
    return isOver(sent) ? "sent" : "pending";
  }

  /** Returns of permits on their way in state `k`, the next to arrive first. */
  returnsAt(k) {
    const { returned, arrived } = this.returns;
    const found = [];
    for (let i = 0; i < returned.length && returned[i] <= k; i++) {
      if (arrived[i] === NEVER || arrived[i] > k) found.push(i);
    }
    return found;
  }

  /** Did this message or return move in the step to state `k`? */
  messageMoved(k, i) {
    const { offered, sent, delivered } = this.messages;
    return k > 0 && [offered[i], sent[i], delivered[i]].includes(k);
  }

  /** A message in words. */
  describe(i) {
    const { kind, rows, cost } = this.messages;
    if (kind[i] !== "chunk") return kind[i];
    return `chunk of ${plural(rows[i], "row")}, costs ${plural(cost[i], "permit")}`;
  }

  /** A state in words, for those who do not see it. */
  summary(k) {
    if (!this.hasLedger) return this.#told(k, this.variables.map(({ name }, index) => `${name} = ${this.valuesAt(k)[index]}`).join(", "));
    const where = Object.entries(this.counts(k, "rows")).map(([place, count]) => `${this.places[place]} ${number(count)}`);
    return this.#told(k, `Of ${number(this.buf.rows)} row permits: ${where.join(", ")}`);
  }

  #told(k, state) {
    const what = k === 0 ? "The beginning" : `${this.call(k)} by the ${this.action(k).actor}`;
    return `Step ${number(this.skipped + k)}: ${what}. ${state}.`;
  }
}
