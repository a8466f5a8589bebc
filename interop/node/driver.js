'use strict';
// Lets `permitflow conform --command "node driver.js"` judge the ends in wire.js: docs/guides/foreign-implementations.md.

const readline = require('node:readline');
const { Sender, Receiver, listen } = require('./wire.js');

const FAULT = process.env.PERMITFLOW_FAULT;
let end, server, opening, isEnding, sends, receives, endings; // from the third on, what waits, as it came

const answer = (id, content) => process.stdout.write(`${JSON.stringify({ id, ...content })}\n`);
const ok = (request, content = {}) => answer(request.id, { ok: content });

/** Do all that can be done now; called after each request, and after all that has come over the wire together. */
function step() {
  if (!end) return;
  if (opening && (end.isOpen || end.failure)) {
    if (end.failure) answer(opening.id, { error: end.failure }); else ok(opening);
    opening = null;
  }
  if (!end.isOpen) return;
  if (end instanceof Receiver) return receive();
  end.sendAll();
  for (const { request, hasLeft } of sends.filter((each) => !end.line.includes(each))) {
    if (!hasLeft) answer(request.id, { error: 'the stream is over' }); else if (FAULT !== 'forgets-answers') ok(request);
  }
  sends = [...end.line];
  isEnding ||= endings.length > 0;
  if (!isEnding || sends.length || end.watermark) return;
  end.end();
  endings.splice(0).forEach((request) => ok(request));
}

function receive() {
  while (receives.length) {
    const message = end.next();
    if (!message && !end.ending) break;
    const request = receives.shift();
    if (!message) { ok(request, end.ending.aborted === undefined ? { ended: true } : { aborted: end.ending.aborted }); continue; }
    const { kind, rows, offset, value, batch } = message;
    ok(request, { [kind]: kind === 'chunk' ? { rows, offset, batch: batch.toString('base64') } : value });
  }
  end.returnDue();
}

const WORDS = {
  hello: () => ({
    protocol: 2, name: 'permitflow on Node', ends: ['sender', 'receiver'], flows: ['permits', 'demand'],
  }),
  open(request) {
    [sends, receives, endings, isEnding] = [[], [], [], false];
    end = new (request.end === 'sender' ? Sender : Receiver)(
      request.flow, { ...request, schema: Buffer.from(request.schema, 'base64') }, step);
    if (request.address) { end.dial(request.address); opening = request; return; }
    listen(request.listen, (socket) => end.attach(socket)).then((listening) => {
      server = listening;
      ok(request, { address: `tcp://127.0.0.1:${server.address().port}` });
    }, (error) => answer(request.id, { error: error.message }));
  },
  close() {
    end?.close();
    server?.close();
    end = server = opening = null;
    return {};
  },
  send: (request) => wait(message('chunk', request)),
  send_barrier: (request) => wait(message('barrier', request)),
  send_now(request) {
    const chunk = message('chunk', request);
    if (end.line.length || !end.pay(chunk)) return answer(request.id, { refused: 'it may not leave now' });
    end.post(chunk);
    return {};
  },
  send_watermark(request) { end.announce(request.value); return {}; },
  end(request) { endings.push(request); },
  abort(request) { end.abort(request.reason); return {}; },
  receive(request) { receives.push(request); },
  consume() { end.consume(); return {}; },
  stop(request) { end.stop(request.reason); return {}; },
  cancel({ request: id }) {
    const sent = sends.find(({ request }) => request.id === id);
    if (sent) { end.withdraw(sent); sends = [...end.line]; }
    const others = [receives, endings].filter((list) => list.some((each, at) => each.id === id && list.splice(at, 1)));
    if (sent || others.length) answer(id, { cancelled: true });
    return {};
  },
  settle: () => FAULT !== 'falls-silent' && ({ handled: end.handled, written: end.written, state: state() }),
};

/** What this end has; the kit compares it with what it has seen on the wire. */
function state() {
  if (end instanceof Receiver) return { unreturned: end.unreturned };
  const { rows, barriers, watermarks, messages } = end.permits;
  return { row_permits: rows, barrier_permits: barriers, watermark_permits: watermarks, requested: messages };
}

function message(kind, request) {
  return { kind, rows: request.rows ?? 0, batch: Buffer.from(request.batch ?? '', 'base64'), request };
}

function wait(message) {
  sends.push(message);
  end.offer(message);
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const request = JSON.parse(line);
  try {
    if (!Object.hasOwn(WORDS, request.do)) throw new Error(`there is no word ${request.do}`);
    if (end?.failure && request.do !== 'close') throw new Error(end.failure);
    const content = WORDS[request.do](request);
    if (content && content !== true) ok(request, content);
    step();
  } catch (error) { answer(request.id, { error: error.message }); }
}).on('close', () => process.exit());
