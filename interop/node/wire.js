'use strict';
// Both ends of a permitflow stream over TCP, for the flows `permits` and `demand`: Node alone, without a package.
//
// Written from docs/protocols/wire.md.  No compression, no shared memory, no checksums: the peer then makes none either.

const net = require('node:net');

// Protobuf, as far as it is needed: numbers, and bytes.

function varint(value) {
  const bytes = [];
  let left = BigInt.asUintN(64, BigInt(value));
  for (; left > 127n; left >>= 7n) bytes.push(Number(left & 127n) | 128);
  return Buffer.from([...bytes, Number(left)]);
}

/** Encode fields: [number, value]; a value is a whole number, bytes or text, and one that is undefined is left out. */
function encode(...fields) {
  const pieces = fields.filter(([, value]) => value !== undefined).map(([number, value]) => {
    if (typeof value === 'number') return Buffer.concat([varint(number << 3), varint(value)]);
    const bytes = Buffer.from(value);
    return Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);
  });
  return Buffer.concat(pieces);
}

/** Decode fields: the values of each number, in order. */
function decode(bytes) {
  const fields = {};
  let at = 0;
  const read = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
    }
  };
  while (at < bytes.length) {
    const key = read();
    let value;
    if ((key & 7) === 0) value = read();
    else if ((key & 7) === 2) { const size = read(); value = bytes.subarray(at, at += size); }
    else if ((key & 7) === 1) value = bytes.subarray(at, at += 8);
    else throw new Error(`a field of type ${key & 7}`);
    (fields[key >> 3] ??= []).push(value);
  }
  return fields;
}

const one = (fields, number, otherwise = 0) => fields[number]?.at(-1) ?? otherwise;

/** Numbers of a repeated field, packed. */
function unpacked(pieces = []) {
  return pieces.flatMap((piece) => {
    if (typeof piece === 'number') return [piece];
    const numbers = [];
    for (let at = 0; at < piece.length;) {
      let size = 1;
      while (piece[at + size - 1] > 127) size++;
      numbers.push(decode(Buffer.concat([Buffer.from([8]), piece.subarray(at, at += size)]))[1][0]);
    }
    return numbers;
  });
}

const zigzag = (value) => (value < 0 ? -2 * value - 1 : 2 * value);
const unzigzag = (value) => (value % 2 ? -(value + 1) / 2 : value / 2);

// What is special to each flow.

const FLOWS = {
  permits: {
    parameters: ['row_permits', 'permit_batch', 'max_chunk_cost', 'barrier_permits', 'oversize', 'initial_permits'],
    start: (agreed) => ({ rows: agreed.initial_permits ?? agreed.row_permits, barriers: agreed.barrier_permits, watermarks: 1 }),
    withheld: (agreed) => agreed.row_permits - (agreed.initial_permits ?? agreed.row_permits),
    batch: (agreed) => agreed.permit_batch,
    cost: (message, agreed) => (message.kind === 'chunk'
      ? ['rows', Math.min(Math.max(message.rows, 1), agreed.max_chunk_cost)] : [`${message.kind}s`, 1]),
    feedback: ['rows', 'barriers', 'watermarks'],
    flushes: true,
  },
  demand: {
    parameters: ['size', 'batch', 'initial'],
    start: (agreed) => ({ messages: agreed.initial }),
    withheld: (agreed) => agreed.size - agreed.initial,
    batch: (agreed) => agreed.batch,
    cost: () => ['messages', 1],
    feedback: ['messages'],
    flushes: false,
  },
};

// Frames over TCP.

const BYTE_WINDOW = 16 * 1024 * 1024; // that this end agrees to as an acceptor
const VERSION = 3;
const MESSAGE = 0, END = 1, STATUS = 2, PING = 3, GET = 4, PUT = 5;
const NO_CHECKSUM = Buffer.from([(14 << 3) | 1, 0, 0, 0, 0, 0, 0, 0, 0]);
const PING_EVERY_MS = 2_000;
const CANCELLED = 3; // the outcome of a stream whose receiver has stopped it

function header(kind, size = 0) {
  const bytes = Buffer.from([kind, 0x70, 0x66, 0, 0, 0, 0, 0]);
  bytes.writeUInt32BE(size, 4);
  bytes[3] = kind ^ bytes[4] ^ bytes[5] ^ bytes[6] ^ bytes[7];
  return bytes;
}

function addressed(address) {
  const [, host, port] = /^(?:tcp:\/\/)?(.*):(\d+)$/.exec(address);
  return { host, port: Number(port) };
}

/** One end of a stream; `Sender` and `Receiver` extend it.  `onChange` is called whenever something has come. */
class End {
  constructor(flow, { channel, parameters, schema }, onChange) {
    this.flow = FLOWS[flow];
    this.onChange = onChange;
    this.written = this.handled = 0; // messages
    this.failure = null;
    this.isOpen = false;
    const stated = encode(...this.flow.parameters.map((name, index) => [index + 1, parameters[name]]));
    this.terms = encode([1, VERSION], [2, channel], [3, flow], [4, stated], [8, schema]); // of Put, Get and Agreement
    this.bytes = 0; // of chunks: out and not returned; or consumed and not returned
    this.agreed = parameters;
  }

  dial(address) {
    this.isDialler = true;
    this.attach(net.connect(addressed(address)));
    this.socket.write(header(this.method));
    this.write(encode([1, encode([1, this.terms])]));
  }

  attach(socket) {
    this.socket = socket.setNoDelay();
    this.pinging = setInterval(() => socket.writable && socket.write(header(PING)), PING_EVERY_MS).unref();
    let rest = Buffer.alloc(0);
    socket.on('data', (data) => {
      rest = Buffer.concat([rest, data]);
      try {
        while (rest.length >= 8 && rest.length >= 8 + rest.readUInt32BE(4)) {
          const size = rest.readUInt32BE(4);
          if (!header(rest[0], size).equals(rest.subarray(0, 8))) throw new Error('this is no header of permitflow');
          const body = rest.subarray(8, 8 + size);
          this.read(rest[0], body);
          rest = rest.subarray(8 + size);
        }
      } catch (error) { this.fail(error.message); }
      this.onChange();
    });
    socket.on('error', (error) => { this.fail(error.message); this.onChange(); });
    socket.on('close', () => { clearInterval(this.pinging); if (!this.isOver) this.fail('the connection was closed'); this.onChange(); });
  }

  fail(reason) { this.failure ??= reason; }

  read(kind, body) {
    if (kind === STATUS) throw new Error(`the peer has ended the stream: ${body}`);
    if (kind === END) {
      if (this.isDialler) this.isOver = true; else if (this.isSender) this.closeHalf(); // a receiver has not answered yet
      return;
    }
    if (kind !== MESSAGE) return; // a sign of life, or the method that a dialler calls
    this.handled++;
    if (body.at(-9) !== NO_CHECKSUM[0] && !(this.handled === 1 && !this.isDialler)) {
      throw new Error('the peer makes checksums, and this end knows none');
    }
    const message = decode(body.subarray(0, -9));
    let rest = message[3]?.at(-1);
    for (const bytes of message[1] ?? []) {
      const frame = decode(bytes);
      const number = Number(Object.keys(frame)[0]);
      const content = frame[number][0];
      if (!this.isOpen) { this.agree(number, decode(content)); continue; }
      if (number === 4) {
        const chunks = decode(content);
        const size = one(chunks, 2);
        this.take(4, { rows: unpacked(chunks[1]), batch: rest.subarray(0, size), size: one(chunks, 3) || size });
        rest = rest.subarray(size);
      } else this.take(number, content);
    }
  }

  agree(number, frame) {
    if (number !== (this.isDialler ? 2 : 1)) throw new Error(`frame ${number} before the agreement`);
    const told = one(frame, 5);
    this.byteWindow = this.isDialler ? told : Math.min(told || BYTE_WINDOW, BYTE_WINDOW);
    this.byteBatch = Math.max(1, Math.floor(this.byteWindow / 4));
    const agreement = Buffer.concat([this.terms, encode([5, this.byteWindow])]);
    if (!this.isDialler) this.write(encode([1, encode([2, agreement])]));
    this.isOpen = true;
  }

  write(message) {
    this.written++;
    this.socket.write(Buffer.concat([header(MESSAGE, message.length + NO_CHECKSUM.length), message, NO_CHECKSUM]));
  }

  closeHalf() {
    this.isOver = true;
    if (FAULT !== 'half-open') this.socket.write(header(END));
  }

  close() {
    this.isOver = true;
    clearInterval(this.pinging);
    this.socket?.destroy();
  }
}

const FAULT = process.env.PERMITFLOW_FAULT ?? ''; // a mistake that is made on purpose: see README.md

class Sender extends End {
  isSender = true;
  method = PUT;
  line = []; // {kind, rows, batch}: what waits
  watermark = null; // {value, behind}: it stands behind so many of the line
  totals = { chunk: 0, barrier: 0, rows: 0 };

  take(number, content) {
    if (number === 13) return; // Ended
    if (number === 11) { this.bytes -= content; return; }
    if (number === 12) { if (FAULT !== 'ignores-cancel') this.end(); return; }
    if (number !== 10) throw new Error(`frame ${number} may not come here`);
    this.flow.feedback.forEach((name, index) => { this.permits[name] += one(decode(content), index + 1); });
  }

  get permits() { return this.permitsHere ??= this.flow.start(this.agreed); }

  /** May this message leave?  If so, its permits and its bytes are taken. */
  pay(message) {
    const [name, cost] = this.flow.cost(message, this.agreed);
    const size = message.kind === 'chunk' ? message.batch.length : 0;
    if (FAULT !== 'ignores-bytes' && size && this.bytes + size > this.byteWindow && this.bytes >= this.byteBatch) return false;
    if (cost + (FAULT === 'last-permit' && name === 'rows') > this.permits[name]) return false;
    this.permits[name] -= cost;
    this.bytes += size;
    return true;
  }

  offer(message) { if (!this.hasEnded) this.line.push(message); }

  announce(value) { if (!this.hasEnded) this.watermark = { value, behind: this.line.length }; }

  withdraw(message) {
    const place = this.line.indexOf(message);
    this.line.splice(place, 1);
    if (this.watermark && place < this.watermark.behind) this.watermark.behind--;
  }

  /** Send all that may leave now, in order. */
  sendAll() {
    for (;;) {
      if (this.watermark?.behind === 0 && this.pay({ kind: 'watermark' })) {
        this.write(encode([1, encode([6, encode([1, zigzag(this.watermark.value)])])]));
        this.watermark = null;
      }
      const fits = (message, place) => (place === 0 || (FAULT === 'overtaking' && message.kind === 'chunk')) && this.pay(message);
      const place = this.line.findIndex(fits);
      if (place < 0) return;
      const [message] = this.line.splice(place, 1);
      if (this.watermark?.behind) this.watermark.behind--;
      this.post(message);
      message.hasLeft = true;
    }
  }

  post({ kind, rows, batch }) {
    this.totals[kind]++;
    if (kind === 'barrier') { this.write(encode([1, encode([5, Buffer.alloc(0)])])); return; }
    this.totals.rows += rows;
    const frames = encode([1, encode([4, encode([1, varint(rows)], [2, batch.length])])]);
    const before = Buffer.concat([Buffer.from([(3 << 3) | 2]), varint(batch.length)]);
    const padding = (64 - (frames.length + 2 + before.length) % 64) % 64;
    this.write(Buffer.concat([frames, encode([2, Buffer.alloc(padding)]), before, batch]));
  }

  /** Nothing more leaves: what waits is withdrawn, behind Cancel or before its turn. */
  end() {
    [this.line, this.watermark] = [[], null];
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.write(encode([1, encode([8, encode([1, this.totals.chunk], [2, this.totals.rows], [3, this.totals.barrier], [4, 1], [5, 1])])]));
    if (this.isDialler) this.closeHalf();
  }

  abort(reason) {
    [this.line, this.watermark, this.hasEnded] = [[], null, true];
    this.write(encode([1, encode([9, encode([1, reason])])]));
    if (this.isDialler) this.closeHalf();
  }
}

class Receiver extends End {
  method = GET;
  inbox = []; // what has come and is not consumed
  taken = 0;
  unreturned = 0;
  due = {}; // to be returned now
  ending = null;

  take(number, content) {
    if (number === 4) {
      let offset = 0;
      const frame = { size: content.size, left: content.rows.length };
      for (const rows of content.rows) {
        this.arrive({ kind: 'chunk', rows, batch: content.batch, offset, frame });
        offset += rows;
      }
    } else if (number === 5 || number === 6) {
      this.arrive({ kind: number === 5 ? 'barrier' : 'watermark', value: unzigzag(one(decode(content), 1)) });
    } else if (number === 8) this.ending = { ended: true, until: one(decode(content), 5) };
    else if (number === 9) this.ending = { aborted: one(decode(content), 1, '').toString() };
    else throw new Error(`frame ${number} may not come here`);
  }

  /** The application needs no more: what is here, and what still comes, is dropped and returned. */
  stop(reason) {
    this.isCancelled = true;
    if (FAULT !== 'stops-silently') this.write(encode([1, encode([12, encode([1, reason])])]));
    while (this.inbox.length) this.consume();
  }

  arrive(message) {
    this.inbox.push(message);
    if (FAULT === 'early-return') this.giveBack(message);
    if (this.isCancelled) this.consume();
  }

  /** The oldest message that was not taken; undefined: none is here. */
  next() {
    const withheld = this.asked ? 0 : this.flow.withheld(this.agreed);
    this.asked = true;
    if (withheld) this.due[this.flow.feedback[0]] = withheld;
    return this.taken < this.inbox.length ? this.inbox[this.taken++] : undefined;
  }

  consume() {
    this.taken--;
    const message = this.inbox.shift();
    if (message.frame && --message.frame.left === 0) this.bytes += message.frame.size;
    if (FAULT !== 'early-return') this.giveBack(message);
  }

  giveBack(message) {
    const [name, cost] = this.flow.cost(message, this.agreed);
    if (name !== this.flow.feedback[0]) this.due[name] = (this.due[name] ?? 0) + cost;
    else if ((this.unreturned += cost) >= this.flow.batch(this.agreed)) this.returnAll();
  }

  returnAll() {
    const name = this.flow.feedback[0];
    this.due[name] = (this.due[name] ?? 0) + this.unreturned;
    this.unreturned = 0;
  }

  /** Return what is due; an idle receiver returns the residue below a batch as well. */
  returnDue() {
    const isIdle = this.inbox.length === 0;
    if (isIdle && this.unreturned && this.flow.flushes && FAULT !== 'no-flush') this.returnAll();
    const frames = [];
    if (Object.keys(this.due).length) {
      frames.push([1, encode([10, encode(...this.flow.feedback.map((name, index) => [index + 1, this.due[name]]))])]);
      this.due = {};
    }
    if (this.bytes && FAULT !== 'ignores-bytes' && (frames.length || this.bytes >= this.byteBatch)) {
      frames.push([1, encode([11, this.bytes])]);
      this.bytes = 0;
    }
    if (frames.length) this.write(encode(...frames));
    if (this.isOver || !this.ending || (this.ending.ended && !isIdle) || FAULT === 'no-ended') return;
    if (this.ending.ended) this.write(encode([1, encode([13, encode([1, this.isCancelled ? CANCELLED : this.ending.until])])]));
    this.closeHalf();
  }
}

/** Let a peer dial this end: `made` makes the end for the next connection. */
function listen(address, onEnd) {
  return new Promise((resolve, reject) => {
    const server = net.createServer(onEnd).on('error', reject);
    server.listen(addressed(address), () => resolve(server));
  });
}

module.exports = { Sender, Receiver, listen };
