// Asks the exchange every other second, and shows its answer.  It keeps ten minutes of samples, as the exchange does.

const settings = JSON.parse(document.getElementById("dashboard").textContent);
const PATIENCE_MILLISECONDS = 8000;
const CHANNELS_AT_ONCE = 24;
const MOST_SAMPLES = settings.historySeconds / settings.sampleSeconds;
const MOST_LAGS = 20; // that are shown of a channel
const LEAST_SAMPLES = MOST_SAMPLES / 10; // that a drawing has room for
const [RATES, FILL, STRIP, GAP] = [56, 24, 7, 3];
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

let token = "";
let first = 0;
let after = 0; // samples that are known
let asked = 0; // the newest question; answers to older ones are dropped
let answeredAt = null;
const cards = new Map();

/** An element with a class, in a parent. */
function add(parent, name, class_ = "", text = "") {
  const made = document.createElement(name);
  if (class_) made.className = class_;
  made.textContent = text;
  parent.append(made);
  return made;
}

function addDrawn(parent, name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.append(made);
  return made;
}

/** Only what differs is touched, so that a selection survives. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const whole = (value) => Math.round(value).toLocaleString("en");
const percent = (share) => `${Math.round(100 * share)} %`;

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit < units.length - 1; unit += 1) bytes /= 1024;
  return `${bytes >= 100 || !unit ? Math.round(bytes) : bytes.toFixed(1).replace(/\.0$/, "")} ${units[unit]}`;
}

/** What is in a window: a bar, and the same in words. */
class Window {
  constructor(parent, name, inWords) {
    this.name = name;
    this.inWords = inWords;
    const box = add(parent, "div", "window");
    add(box, "span", "", name);
    this.bar = add(box, "div", "bar");
    this.bar.setAttribute("role", "meter");
    this.held = add(this.bar, "div", "segment held");
    this.away = add(this.bar, "div", "segment away");
    this.words = add(box, "span", "words");
  }

  show(channel, held, away, most) {
    const { inWords } = this;
    const room = most ? `${inWords(held)} of ${inWords(most)} held` : `${inWords(held)} held, without a bound`;
    say(this.words, `${room}${away ? `, ${inWords(away)} with consumers` : ""}`);
    // A consumer's stream has a window of its own; the bar is as wide as both once that is used.
    const all = Math.max((most || held) + away, 1);
    for (const [element, value] of [[this.held, held], [this.away, away]]) {
      element.style.width = `${(100 * value) / all}%`;
      element.classList.toggle("some", value > 0);
    }
    this.bar.setAttribute("aria-label", `${this.name} held in ${channel}`);
    this.bar.setAttribute("aria-valuemin", "0");
    this.bar.setAttribute("aria-valuemax", String(Math.max(most || 0, held, 1)));
    this.bar.setAttribute("aria-valuenow", String(held));
    this.bar.setAttribute("aria-valuetext", this.words.textContent);
  }
}

class Card {
  constructor(name) {
    this.name = name;
    this.samples = [];
    this.box = document.createElement("section");
    this.box.className = "card";
    this.box.setAttribute("aria-label", `Channel ${name}`);
    const head = add(this.box, "div", "channel-head");
    add(head, "h2", "", name);
    this.state = add(head, "span", "state");
    this.ends = add(head, "span", "ends");
    this.waits = add(this.box, "p", "waits");
    this.rows = new Window(this.box, "rows", whole);
    this.bytes = new Window(this.box, "bytes", size);
    const now = add(this.box, "p", "now");
    this.ofRows = [now];
    [this.rateIn, this.rateOut, this.total] = ["rows/s in", "rows/s out", "rows so far"].map((words) => {
      const figure = add(now, "span");
      const number = add(figure, "b");
      figure.append(` ${words}`);
      return number;
    });
    this.lag = add(this.box, "p", "now");
    this.past = addDrawn(this.box, "svg", {
      class: "past",
      preserveAspectRatio: "none",
      role: "img",
    });
    const axis = add(this.box, "div", "axis");
    this.earliest = add(axis, "span");
    this.highest = add(axis, "span");
    add(axis, "span", "", "now");
    this.ofRows.push(this.past, axis);
    const order = add(this.box, "div", "order");
    this.order = order;
    this.reset = add(order, "button", "worded", "Reset");
    this.reset.type = "button";
    this.reset.setAttribute("aria-label", `Reset ${name}`);
    this.forced = add(order, "button", "worded forced", "Reset all the same");
    this.forced.type = "button";
    this.forced.setAttribute("aria-label", `Reset ${name} all the same`);
    this.forced.hidden = true;
    this.told = add(order, "p");
    this.told.setAttribute("role", "status");
    this.reset.addEventListener("click", () => this.askToReset(false));
    this.forced.addEventListener("click", () => this.askToReset(true));
  }

  show(channel) {
    const { state, waits } = channel;
    say(this.state, state);
    this.state.className = `state ${state}`;
    say(this.ends, `${count(channel.producers, "producer")}, ${count(channel.consumers, "consumer")}`);
    say(this.waits, sentenceOf(waits.text));
    this.waits.className = `waits ${waits.who} ${state}`;
    this.rows.show(this.name, channel.rows_held, channel.rows_with_consumers, channel.window_rows);
    this.bytes.show(this.name, channel.bytes_held, channel.bytes_with_consumers, channel.byte_window);
    say(this.rateIn, whole(channel.rows_in_per_second));
    say(this.rateOut, whole(channel.rows_out_per_second));
    say(this.total, whole(channel.rows_in));
    const lags = Object.entries(channel.kept?.lag_rows ?? {});
    const shown = lags.length > MOST_LAGS ? lags.sort((one, other) => other[1] - one[1]).slice(0, MOST_LAGS) : lags;
    const words = shown.map(([name, rows]) => `${name} ${whole(rows)}`);
    if (lags.length > MOST_LAGS) words.push(`and ${whole(lags.length - MOST_LAGS)} more`);
    say(this.lag, words.length ? `still to acknowledge: ${words.join(", ")}` : "");
    // A channel that nobody has used has no past, and needs no reset.
    const isUsed = channel.rows_in > 0 || state !== "waiting";
    for (const element of this.ofRows) element.toggleAttribute("hidden", !isUsed);
    this.order.hidden = !(channel.may_reset && (isUsed || this.told.textContent));
    this.samples = [...this.samples, ...channel.history].slice(-MOST_SAMPLES);
    this.draw();
  }

  draw() {
    const { samples, past } = this;
    const width = Math.max(LEAST_SAMPLES, samples.length);
    const left = width - samples.length;
    past.setAttribute("viewBox", `0 0 ${width} ${RATES + FILL + 2 * STRIP + 3 * GAP}`);
    const most = Math.max(1, ...samples.map(([rateIn, rateOut]) => Math.max(rateIn, rateOut)));
    const x = (place) => left + place + 0.5;
    const line = (figure) => samples.map((each, place) => `${x(place)},${(RATES * (1 - each[figure] / most)).toFixed(1)}`).join(" ");
    past.replaceChildren();
    const fillTop = RATES + GAP;
    const strips = [fillTop + FILL + GAP, fillTop + FILL + 2 * GAP + STRIP];
    for (const [y, height] of [[0, RATES], [fillTop, FILL], ...strips.map((y) => [y, STRIP])]) {
      addDrawn(past, "rect", { class: "ground", x: 0, y, width, height });
    }
    if (samples.length) {
      const tops = samples.map((each, place) => `L${x(place)} ${(fillTop + FILL * (1 - Math.min(1, each[2]))).toFixed(1)}`).join("");
      addDrawn(past, "path", { class: "fill", d: `M${x(0)} ${fillTop + FILL}${tops}L${x(samples.length - 1)} ${fillTop + FILL}z` });
      for (const [figure, class_] of [[0, "in"], [1, "out"]]) addDrawn(past, "polyline", { class: class_, points: line(figure) });
    }
    for (const [strip, class_] of [[0, "waited-in"], [1, "waited-out"]]) {
      samples.forEach((each, place) => {
        const share = each[3 + strip];
        if (share >= 0.05) {
          addDrawn(past, "rect", { class: class_, x: left + place, y: strips[strip] + STRIP * (1 - share), width: 1.05, height: STRIP * share });
        }
      });
    }
    say(this.earliest, ago(width * settings.sampleSeconds));
    say(this.highest, `highest: ${whole(most)} rows/s`);
    const waited = samples.length ? samples.reduce((sum, each) => sum + each[3], 0) / samples.length : 0;
    past.setAttribute("aria-label", `The last minutes of ${this.name}: at most ${whole(most)} rows a second; producers waited ${percent(waited)} of the time`);
  }

  async askToReset(force) {
    for (const button of [this.reset, this.forced]) button.disabled = true;
    this.tell("resetting …");
    try {
      const [status, answer] = await ask("reset", { channels: [this.name], force });
      if (status === 200) {
        const [{ rows, streams }] = answer.changed;
        this.tell(`reset: ${count(rows, "row")} dropped, ${count(streams, "stream")} ended`);
        this.forced.hidden = true;
      } else {
        this.tell(answer.message, true);
        this.forced.hidden = status !== 409;
      }
    } catch (error) {
      this.tell(`no answer: ${error.message}`, true);
    }
    for (const button of [this.reset, this.forced]) button.disabled = false;
    look();
  }

  tell(text, isRefused = false) {
    say(this.told, text);
    this.told.className = isRefused ? "refused" : "";
  }
}

const ago = (seconds) => (seconds < 120 ? `${Math.round(seconds)} seconds ago` : `${Math.round(seconds / 60)} minutes ago`);
const count = (number, name) => `${whole(number)} ${name}${number === 1 ? "" : "s"}`;
const sentenceOf = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Status and content of an answer; with an order, what only this page may give. */
async function ask(path, order) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const options = { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MILLISECONDS) };
  if (order) {
    Object.assign(headers, { "Content-Type": "application/json", "Permitflow-Page": settings.guard });
    Object.assign(options, { method: "POST", body: JSON.stringify(order) });
  }
  const answer = await fetch(path, options);
  return [answer.status, await answer.json()];
}

async function look() {
  if (document.hidden || (settings.asksForToken && !token && location.protocol === "http:")) return;
  asked += 1;
  const mine = asked;
  const wanted = new URLSearchParams({ first, count: CHANNELS_AT_ONCE, find: byId("text").value, after });
  try {
    const [status, answer] = await ask(`channels.json?${wanted}`);
    if (mine !== asked) return;
    if (status === 401) return askWho(answer.message);
    if (status !== 200) throw new Error(answer.message);
    show(answer);
    answeredAt = new Date();
    say(byId("news"), "");
  } catch (error) {
    if (mine !== asked) return;
    say(byId("phase"), "no answer");
    byId("phase").className = "badge lost";
    const since = answeredAt ? ` since ${clock(answeredAt)}: these are its last figures` : "";
    say(byId("news"), `The exchange does not answer${since}. ${error.message}`);
  }
}

const clock = (date) => date.toLocaleTimeString("en-GB");

/** Who has shown nothing hears no other reason than before: it may say why the last token was refused. */
function askWho(reason) {
  if (token || !byId("who-reason").textContent) say(byId("who-reason"), reason);
  token = "";
  say(byId("news"), "");
  byId("shown").hidden = true;
  byId("who").hidden = false;
  say(byId("phase"), "locked");
  byId("phase").className = "badge";
}

function show(answer) {
  if (first > 0 && first >= answer.found) return turnTo(Math.max(0, first - CHANNELS_AT_ONCE));
  if (answer.sample < after) return turnTo(first); // another run of the exchange
  byId("who").hidden = true;
  say(byId("who-reason"), "");
  byId("shown").hidden = false;
  const phase = byId("phase");
  say(phase, answer.phase === "ready" ? "running" : answer.phase);
  phase.className = "badge";
  say(byId("sentence"), inBrief(answer));
  showFacts(answer);
  const last = Math.min(answer.found, first + CHANNELS_AT_ONCE);
  say(byId("range"), answer.found ? `${first + 1} to ${last} of ${answer.found}` : "none");
  byId("back").disabled = first === 0;
  byId("on").disabled = last >= answer.found;
  document.querySelector(".pages").hidden = answer.found <= CHANNELS_AT_ONCE;
  showChannels(answer);
  showEvents(answer.events);
}

function inBrief({ all, watches_all: watchesAll }) {
  const named = (wanted) => {
    const found = all.filter(wanted).map((each) => each.channel);
    return found.length > 3 ? `${found.slice(0, 3).join(", ")} and ${found.length - 3} more` : found.join(", ");
  };
  const [broken, spent, waits] = [
    named((each) => each.state === "broken"),
    named((each) => each.state === "spent"),
    named((each) => each.waiting === "producers" || each.waiting === "gate"),
  ];
  const parts = [count(all.length, "channel")];
  if (broken) parts.push(`broken: ${broken}`);
  if (spent) parts.push(`spent: ${spent}`);
  if (waits) parts.push(`held up: ${waits}`);
  if (!broken && !waits) parts.push("nothing is held up");
  if (!watchesAll) parts.push(`only the exchange's first ${whole(settings.watched)} channels are watched here, all by permitflow top`);
  return `${parts.join("; ")}.`;
}

function showFacts({ totals, streams, reserved_bytes: reserved, max_memory: most, identity, at_seconds: at }) {
  const facts = [
    ["rows/s in", whole(totals.rows_in_per_second)],
    ["rows/s out", whole(totals.rows_out_per_second)],
    ["rows held", whole(totals.rows_held)],
    ["bytes held", size(totals.bytes_held)],
    ["bound in memory", most ? `${size(reserved)} of ${size(most)}` : size(reserved)],
    ["streams", whole(streams)],
    ["at", clock(new Date(1000 * at))],
    ...(identity ? [["you are", identity]] : []),
  ];
  const list = byId("facts");
  while (list.children.length > facts.length) list.lastChild.remove();
  facts.forEach(([name, value], place) => {
    const box = list.children[place] ?? add(list, "div");
    if (!box.children.length) [add(box, "dt"), add(box, "dd")];
    say(box.children[0], name);
    say(box.children[1], value);
  });
}

function showChannels({ channels, sample }) {
  const names = new Set(channels.map((each) => each.channel));
  for (const [name, card] of cards) {
    if (names.has(name)) continue;
    card.box.remove();
    cards.delete(name);
  }
  for (const channel of channels) {
    let card = cards.get(channel.channel);
    if (!card) {
      card = new Card(channel.channel);
      cards.set(channel.channel, card);
      byId("channels").append(card.box);
    }
    card.show(channel);
  }
  after = sample;
}

function showEvents(events) {
  const list = byId("events");
  const newest = events.length ? `${events[0].at_seconds} ${events[0].channel} ${events.length}` : "none";
  if (list.dataset.newest === newest) return;
  list.dataset.newest = newest;
  list.replaceChildren();
  if (!events.length) add(list, "li", "none", "Nothing yet, since the exchange was started.");
  for (const { at_seconds: at, channel, text, is_bad: isBad } of events) {
    const item = add(list, "li");
    add(item, "time", "", clock(new Date(1000 * at)));
    add(item, "span", "", channel);
    add(item, "span", isBad ? "bad" : "", text);
  }
}

/** Other channels: with all that is known of their past. */
function turnTo(place) {
  first = place;
  after = 0;
  for (const card of cards.values()) card.box.remove();
  cards.clear();
  look();
}

byId("text").addEventListener("input", () => turnTo(0));
byId("find").addEventListener("submit", (event) => event.preventDefault());
byId("back").addEventListener("click", () => turnTo(Math.max(0, first - CHANNELS_AT_ONCE)));
byId("on").addEventListener("click", () => turnTo(first + CHANNELS_AT_ONCE));
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  byId("token").value = "";
  if (/^[!-~]+$/.test(token)) look();
  else askWho("A token has printable characters of ASCII only, and no blanks."); // no header could have it
});
document.addEventListener("visibilitychange", look);

async function keepLooking() {
  await look();
  setTimeout(keepLooking, 1000 * settings.sampleSeconds);
}

document.documentElement.classList.remove("no-script");
if (settings.asksForToken && location.protocol === "http:") askWho("This exchange shows its channels only to those that have a token.");
keepLooking();
