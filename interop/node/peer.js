'use strict';
// The service of numbers.proto, or a client of it, with Node's own flow control: write() and 'drain', pause() and
// resume().  A consumer stands still after a few messages, until it is told to go on.
//
//     node peer.js PROTO WINDOW serve
//     node peer.js PROTO WINDOW ADDRESS METHOD COUNT SIZE
//
// WINDOW: bytes of each call that may wait to be read here.  Commands come as lines on standard input: "look" prints
// how many messages were given and taken, "go" lets the consumer go on.  All output is JSON, one object a line.

const readline = require('node:readline');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const STANDS_STILL_AFTER = 3;

const [, , proto, window, command, ...rest] = process.argv;
const { Numbers } = grpc.loadPackageDefinition(protoLoader.loadSync(proto, { longs: Number })).permitflow.tests;
const options = {
  'grpc-node.flow_control_window': Number(window), // of a client; a server on Node has no option for it
  'grpc.per_rpc_retry_buffer_size': 0, // otherwise a client takes another MiB of requests, to be able to repeat them
};

const state = { given: 0, taken: 0, sum: 0 };
let goOn = () => {};
let mayGoOn = false;

function tell(object) {
  console.log(JSON.stringify(object));
}

/** Write numbers to a stream, no faster than it takes them. */
function give(stream, count, size) {
  while (state.given < count) {
    state.given += 1;
    if (!stream.write({ value: state.given, padding: Buffer.alloc(size) })) {
      stream.once('drain', () => give(stream, count, size));
      return;
    }
  }
  stream.end();
}

/** Read numbers from a stream; stand still after a few. */
function take(stream, whenEnded) {
  stream.on('data', (number) => {
    state.taken += 1;
    state.sum += number.value;
    if (state.taken === STANDS_STILL_AFTER && !mayGoOn) {
      stream.pause();
      goOn = () => stream.resume();
    }
  });
  stream.on('end', whenEnded);
}

const handlers = {
  Count(call) {
    give(call, call.request.value, call.request.padding.length);
  },
  Sum(call, answer) {
    take(call, () => answer(null, { value: state.sum }));
  },
  Double(call) {
    call.on('data', ({ value, padding }) => {
      if (!call.write({ value: 2 * value, padding })) {
        call.pause();
        call.once('drain', () => call.resume());
      }
    });
    call.on('end', () => call.end());
  },
};

function serve() {
  const server = new grpc.Server(options);
  server.addService(Numbers.service, handlers);
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error) throw error;
    tell({ port });
  });
}

function call(address, method, count, size) {
  const client = new Numbers(address, grpc.credentials.createInsecure(), options);
  const whenEnded = () => {
    tell({ ended: state });
    client.close();
  };
  if (method === 'Count') {
    take(client.count({ value: count, padding: Buffer.alloc(size) }), whenEnded);
  } else if (method === 'Double') {
    const stream = client.double();
    take(stream, whenEnded);
    give(stream, count, size);
  } else {
    const stream = client.sum((error, answer) => {
      if (error) throw error;
      state.sum = answer.value;
      whenEnded();
    });
    give(stream, count, size);
  }
}

readline
  .createInterface({ input: process.stdin })
  .on('line', (line) => {
    if (line === 'look') {
      tell(state);
    } else if (line === 'go') {
      mayGoOn = true;
      goOn();
    }
  })
  .on('close', () => process.exit(0));

if (command === 'serve') {
  serve();
} else {
  call(command, rest[0], Number(rest[1]), Number(rest[2]));
}
