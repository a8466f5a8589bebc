'use strict';
// Lets `permitflow conform --command "node driver.js"` judge the ends in wire.js: docs/guides/foreign-implementations.md.

const readline = require('node:readline');
const { Sender, Receiver, listen } = require('./wire.js');

let end = null, server = null;
let sends = [], receives = [], opening = null, ending = null; // requests that wait, as they came

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
  if (end instanceof Sender) {
    for (const message of end.sendAll()) {
      if (process.env.PERMITFLOW_FAULT !== 'forgets-answers') ok(message.request);
      sends.splice(sends.indexOf(message), 1);
    }
    if (ending && !sends.length && !end.watermark) {
      if (!end.hasEnded) end.end();
      end.hasEnded = true;
      ending.forEach((request) => ok(request));
      ending = [];
    }
  } else {
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
}

const WORDS = {
  hello: () => ({
    protocol: 2, name: 'permitflow on Node', ends: ['sender', 'receiver'], flows: ['permits', 'demand'],
  }),
  open(request) {
    const kind = request.end === 'sender' ? Sender : Receiver;
    const schema = Buffer.from(request.schema, 'base64');
    end = new kind(request.flow, { ...request, schema }, step);
    opening = request;
    if (request.address) end.dial(request.address);
    else {
      opening = null;
      listen(request.listen, (socket) => end.attach(socket)).then((listening) => {
        server = listening;
        ok(request, { address: `tcp://127.0.0.1:${server.address().port}` });
      }, (error) => answer(request.id, { error: error.message }));
    }
  },
  close() {
    end?.close();
    server?.close();
    [end, server, sends, receives, ending] = [null, null, [], [], null];
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
  end(request) { (ending ??= []).push(request); },
  abort(request) {
    end.abort(request.reason);
    sends.splice(0).forEach((message) => answer(message.request.id, { error: 'the stream was given up' }));
    end.line = [];
    return {};
  },
  receive(request) { receives.push(request); },
  consume() { end.consume(); return {}; },
  cancel(request) {
    const sent = sends.find((each) => each.request.id === request.request);
    const found = sent?.request ?? [...receives, ...(ending ?? [])].find(({ id }) => id === request.request);
    if (sent) end.withdraw(sent);
    if (found) answer(found.id, { cancelled: true });
    sends = sends.filter((each) => each !== sent);
    receives = receives.filter((each) => each !== found);
    ending = ending?.filter((each) => each !== found) ?? null;
    return {};
  },
  settle: () => process.env.PERMITFLOW_FAULT !== 'falls-silent' && ({ handled: end.handled, written: end.written, state: state() }),
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

function wait(chunk) {
  sends.push(chunk);
  end.offer(chunk);
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
