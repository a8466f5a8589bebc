import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Both ends of a permitflow stream over TCP, for the flow {@code permits}: the JDK alone, without a library.
 *
 * <p>Written from docs/protocols/wire.md. No compression, no shared memory, no checksums: the peer then makes none either. An end is used by one thread at a time; {@code lock} guards it.
 */
final class Wire {
    private static final int MESSAGE = 0, END = 1, STATUS = 2, PING = 3, GET = 4, PUT = 5;
    private static final long VERSION = 3;
    /** The outcome of a stream whose receiver has stopped it. */
    private static final long CANCELLED = 3;
    private static final int PING_EVERY_MS = 2_000;
    /** That this end agrees to as an acceptor. */
    private static final long BYTE_WINDOW = 16 << 20;
    private static final byte[] NO_CHECKSUM = {14 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0};
    /** A mistake that is made on purpose: see README.md. */
    private static final String FAULT = System.getenv().getOrDefault("PERMITFLOW_FAULT", "");

    private Wire() {}

    // Protobuf, as far as it is needed: numbers, and bytes.

    private static void varint(ByteArrayOutputStream out, long value) {
        for (; (value & ~127L) != 0; value >>>= 7) out.write((int) (value & 127 | 128));
        out.write((int) value);
    }

    /** Fields: a number and a value by turns; a value is a Long, bytes or text, and one that is null is left out. */
    static byte[] encode(Object... fields) {
        var out = new ByteArrayOutputStream();
        for (int at = 0; at < fields.length; at += 2) {
            int number = (int) fields[at];
            if (fields[at + 1] instanceof Long value) {
                varint(out, number << 3);
                varint(out, value);
            } else if (fields[at + 1] != null) {
                byte[] bytes = fields[at + 1] instanceof String text ? text.getBytes(StandardCharsets.UTF_8) : (byte[]) fields[at + 1];
                varint(out, number << 3 | 2);
                varint(out, bytes.length);
                out.writeBytes(bytes);
            }
        }
        return out.toByteArray();
    }

    /** The values of each field, in order. */
    static Map<Integer, List<Object>> decode(byte[] bytes) throws IOException {
        var fields = new LinkedHashMap<Integer, List<Object>>();
        for (var in = ByteBuffer.wrap(bytes); in.hasRemaining(); ) {
            long key = readVarint(in);
            Object value;
            switch ((int) key & 7) {
                case 0 -> value = readVarint(in);
                case 1 -> value = take(in, 8);
                case 2 -> value = take(in, (int) readVarint(in));
                default -> throw new IOException("a field of type " + (key & 7));
            }
            fields.computeIfAbsent((int) (key >> 3), number -> new ArrayList<>()).add(value);
        }
        return fields;
    }

    private static long readVarint(ByteBuffer in) {
        long value = 0;
        for (int shift = 0; ; shift += 7) {
            byte next = in.get();
            value |= (long) (next & 127) << shift;
            if (next >= 0) return value;
        }
    }

    private static byte[] take(ByteBuffer in, int size) {
        byte[] bytes = new byte[size];
        in.get(bytes);
        return bytes;
    }

    private static Object last(Map<Integer, List<Object>> fields, int number, Object otherwise) {
        var values = fields.get(number);
        return values == null ? otherwise : values.get(values.size() - 1);
    }

    private static long number(Map<Integer, List<Object>> fields, int number) {
        return (Long) last(fields, number, 0L);
    }

    private static byte[] bytes(Map<Integer, List<Object>> fields, int number) {
        return (byte[]) last(fields, number, new byte[0]);
    }

    private static byte[] header(int kind, int size) {
        byte[] bytes = ByteBuffer.allocate(8).put((byte) kind).put((byte) 'p').put((byte) 'f').put((byte) 0).putInt(size).array();
        bytes[3] = (byte) (kind ^ bytes[4] ^ bytes[5] ^ bytes[6] ^ bytes[7]);
        return bytes;
    }

    /** A chunk, a barrier or a watermark; {@code batch} holds the chunk's rows, from {@code offset} on. */
    record Message(String kind, long rows, long offset, long value, byte[] batch, Frame frame) {
        Message(String kind, long rows, byte[] batch) {
            this(kind, rows, 0, 0, batch, null);
        }
    }

    /** Chunks that came together, and count together in the byte window. */
    static final class Frame {
        final long size;
        int left;

        Frame(long size, int left) {
            this.size = size;
            this.left = left;
        }
    }

    /** What an end has agreed on. */
    record Parameters(long rowPermits, long permitBatch, long maxChunkCost, long barrierPermits, String oversize, long initialPermits) {
        byte[] encoded() {
            return encode(1, rowPermits, 2, permitBatch, 3, maxChunkCost, 4, barrierPermits, 5, oversize, 6, initialPermits);
        }

        long cost(Message message) {
            return message.kind.equals("chunk") ? Math.min(Math.max(message.rows, 1), maxChunkCost) : 1;
        }
    }

    /** Frames over a socket of TCP. */
    abstract static class End {
        final Object lock;
        final Runnable onChange;
        final Parameters agreed;
        private final String channel;
        private final byte[] schema;
        long written, handled;
        /** Of chunks: out and not returned; or consumed and not returned. */
        long bytes, byteWindow, byteBatch;
        String failure;
        boolean isOpen, isOver;
        private boolean isDialler;
        private Socket socket;
        private OutputStream out;

        End(String channel, Parameters agreed, byte[] schema, Object lock, Runnable onChange) {
            this.channel = channel;
            this.agreed = agreed;
            this.schema = schema;
            this.lock = lock;
            this.onChange = onChange;
        }

        abstract int method();

        abstract void process(int frame, byte[] content, byte[] batch) throws IOException;

        void dial(String address) throws IOException {
            var uri = URI.create(address);
            isDialler = true;
            attach(new Socket(uri.getHost(), uri.getPort()));
            out.write(header(method(), 0));
            byte[] opening = encode(1, VERSION, 2, channel, 3, "permits", 4, agreed.encoded(), 8, schema);
            write(encode(1, encode(1, opening)));
        }

        /** Let the peer dial; the socket is that of a server. */
        void accept(ServerSocket server) {
            daemon(() -> {
                try {
                    var connection = server.accept();
                    synchronized (lock) {
                        attach(connection);
                    }
                } catch (IOException error) {
                    fail(error);
                }
            });
        }

        private void attach(Socket connection) throws IOException {
            socket = connection;
            socket.setTcpNoDelay(true);
            out = socket.getOutputStream();
            daemon(this::readAll);
            daemon(this::pingAll);
        }

        private static void daemon(Runnable task) {
            var thread = new Thread(task);
            thread.setDaemon(true);
            thread.start();
        }

        private void pingAll() {
            try {
                while (true) {
                    Thread.sleep(PING_EVERY_MS);
                    synchronized (lock) {
                        if (isOver) return;
                        out.write(header(PING, 0));
                    }
                }
            } catch (IOException | InterruptedException error) {
                // The reader says what has happened.
            }
        }

        private void readAll() {
            try {
                var in = new DataInputStream(socket.getInputStream());
                while (true) {
                    byte[] head = in.readNBytes(8);
                    if (head.length < 8) throw new IOException("the connection was closed");
                    int size = ByteBuffer.wrap(head, 4, 4).getInt();
                    if (!java.util.Arrays.equals(head, header(head[0], size))) throw new IOException("this is no header of permitflow");
                    byte[] body = in.readNBytes(size);
                    synchronized (lock) {
                        read(head[0], body);
                        onChange.run();
                    }
                }
            } catch (IOException | RuntimeException error) {
                fail(error);
            }
        }

        private void fail(Exception error) {
            synchronized (lock) {
                if (!isOver && failure == null) failure = error.getMessage();
                onChange.run();
            }
        }

        private void read(int kind, byte[] body) throws IOException {
            if (kind == STATUS) throw new IOException("the peer has ended the stream: " + new String(body, StandardCharsets.UTF_8));
            if (kind == END) {
                if (isDialler) isOver = true; else if (method() == PUT) closeHalf(); // a receiver has not answered yet
            }
            if (kind != MESSAGE) return; // a sign of life, or the method that a dialler calls
            handled++;
            boolean isFirstOfDialler = !isOpen && !isDialler;
            if (body[body.length - 9] != NO_CHECKSUM[0] && !isFirstOfDialler) {
                throw new IOException("the peer makes checksums, and this end knows none");
            }
            var message = decode(java.util.Arrays.copyOf(body, body.length - 9));
            var rest = ByteBuffer.wrap(bytes(message, 3));
            for (Object encoded : message.getOrDefault(1, List.of())) {
                var frame = decode((byte[]) encoded);
                int number = frame.keySet().iterator().next();
                byte[] content = last(frame, number, null) instanceof byte[] found ? found : new byte[0];
                if (!isOpen) agree(number, decode(content));
                else if (number == 11) bytes -= number(frame, 11);
                else process(number, content, number == 4 ? Wire.take(rest, (int) number(decode(content), 2)) : null);
            }
        }

        private void agree(int number, Map<Integer, List<Object>> frame) throws IOException {
            if (number != (isDialler ? 2 : 1)) throw new IOException("frame " + number + " before the agreement");
            long told = Wire.number(frame, 5);
            byteWindow = isDialler ? told : told > 0 ? Math.min(told, BYTE_WINDOW) : BYTE_WINDOW;
            byteBatch = Math.max(1, byteWindow / 4);
            byte[] agreement = encode(1, VERSION, 2, channel, 3, "permits", 4, agreed.encoded(), 5, byteWindow, 8, schema);
            if (!isDialler) write(encode(1, encode(2, agreement)));
            isOpen = true;
        }

        void write(byte[] message) throws IOException {
            written++;
            var all = new ByteArrayOutputStream();
            all.writeBytes(header(MESSAGE, message.length + NO_CHECKSUM.length));
            all.writeBytes(message);
            all.writeBytes(NO_CHECKSUM);
            out.write(all.toByteArray());
        }

        void closeHalf() throws IOException {
            isOver = true;
            out.write(header(END, 0));
        }

        void close() throws IOException {
            isOver = true;
            if (socket != null) socket.close();
        }

        boolean isDialler() {
            return isDialler;
        }
    }

    static final class Sender extends End {
        final List<Message> line = new ArrayList<>();
        final Map<String, Long> permits = new HashMap<>();
        /** The watermark that has not left; it stands behind so many of the line. */
        Message watermark;
        private int behind;
        private boolean hasEnded;
        private long chunks, rows, barriers;

        Sender(String channel, Parameters agreed, byte[] schema, Object lock, Runnable onChange) {
            super(channel, agreed, schema, lock, onChange);
            permits.putAll(Map.of("chunk", agreed.initialPermits(), "barrier", agreed.barrierPermits(), "watermark", 1L));
        }

        @Override
        int method() {
            return PUT;
        }

        @Override
        void process(int frame, byte[] content, byte[] batch) throws IOException {
            if (frame == 12 && !FAULT.equals("ignores-cancel")) end();
            if (frame == 12 || frame == 13) return; // 13: Ended
            if (frame != 10) throw new IOException("frame " + frame + " may not come here");
            var returned = decode(content);
            permits.merge("chunk", number(returned, 1), Long::sum);
            permits.merge("barrier", number(returned, 2), Long::sum);
            permits.merge("watermark", number(returned, 3), Long::sum);
        }

        /** May this message leave?  If so, its permits and its bytes are taken. */
        boolean pay(Message message) {
            long size = message.batch == null ? 0 : message.batch.length;
            if (size > 0 && !FAULT.equals("ignores-bytes") && bytes + size > byteWindow && bytes >= byteBatch) return false;
            long cost = agreed.cost(message), kept = FAULT.equals("last-permit") && message.kind.equals("chunk") ? 1 : 0;
            if (cost + kept > permits.get(message.kind)) return false;
            permits.merge(message.kind, -cost, Long::sum);
            bytes += size;
            return true;
        }

        void offer(Message message) {
            if (!hasEnded) line.add(message);
        }

        void announce(long value) {
            if (hasEnded) return;
            watermark = new Message("watermark", 0, 0, value, null, null);
            behind = line.size();
        }

        void withdraw(int place) {
            line.remove(place);
            if (place < behind) behind--;
        }

        /** Send the oldest message, or a watermark, if it may leave now; null: none may. */
        Message sendOne() throws IOException {
            if (watermark != null && behind == 0 && pay(watermark)) {
                var sent = watermark;
                watermark = null;
                long value = sent.value, zigzag = value << 1 ^ value >> 63;
                write(encode(1, encode(6, encode(1, zigzag))));
                return sent;
            }
            for (int place = 0; place < line.size(); place++) {
                var message = line.get(place);
                boolean mayTry = place == 0 || FAULT.equals("overtaking") && message.kind.equals("chunk");
                if (mayTry && pay(message)) {
                    withdraw(place);
                    post(message);
                    return message;
                }
            }
            return null;
        }

        void post(Message message) throws IOException {
            if (message.kind.equals("barrier")) {
                barriers++;
                write(encode(1, encode(5, new byte[0])));
                return;
            }
            chunks++;
            rows += message.rows;
            var packed = new ByteArrayOutputStream();
            varint(packed, message.rows);
            byte[] frames = encode(1, encode(4, encode(1, packed.toByteArray(), 2, (long) message.batch.length)));
            byte[] body = encode(3, message.batch);
            int before = frames.length + 2 + body.length - message.batch.length;
            var out = new ByteArrayOutputStream();
            out.writeBytes(frames);
            out.writeBytes(encode(2, new byte[Math.floorMod(-before, 64)])); // the batch begins at a multiple of 64
            out.writeBytes(body);
            write(out.toByteArray());
        }

        void end() throws IOException {
            close(8, encode(1, chunks, 2, rows, 3, barriers, 4, 1L, 5, 1L));
        }

        void abort(String reason) throws IOException {
            close(9, encode(1, reason));
        }

        /** Nothing more leaves: what waits is withdrawn. */
        private void close(int frame, byte[] content) throws IOException {
            line.clear();
            watermark = null;
            if (hasEnded) return;
            hasEnded = true;
            write(encode(1, encode(frame, content)));
            if (isDialler()) closeHalf();
        }
    }

    static final class Receiver extends End {
        /** What has come and is not consumed; so many of it are taken. */
        final List<Message> inbox = new ArrayList<>();
        int taken;
        long unreturned;
        /** How the stream has ended: "ended", or "aborted" with a reason. */
        Map.Entry<String, Object> ending;
        private long until;
        private final Map<String, Long> due = new HashMap<>();
        private boolean hasAsked, isStopped;

        Receiver(String channel, Parameters agreed, byte[] schema, Object lock, Runnable onChange) {
            super(channel, agreed, schema, lock, onChange);
        }

        @Override
        int method() {
            return GET;
        }

        @Override
        void process(int frame, byte[] content, byte[] batch) throws IOException {
            var fields = decode(content);
            switch (frame) {
                case 4 -> {
                    long offset = 0, uncompressed = number(fields, 3);
                    Deque<Long> rows = packed(fields.get(1));
                    var together = new Frame(uncompressed > 0 ? uncompressed : batch.length, rows.size());
                    for (; !rows.isEmpty(); offset += rows.remove()) {
                        arrive(new Message("chunk", rows.peek(), offset, 0, batch, together));
                    }
                }
                case 5, 6 -> {
                    long value = number(fields, 1);
                    arrive(new Message(frame == 5 ? "barrier" : "watermark", 0, 0, value >>> 1 ^ -(value & 1), null, null));
                }
                case 8 -> {
                    ending = Map.entry("ended", true);
                    until = number(fields, 5);
                }
                case 9 -> ending = Map.entry("aborted", new String(bytes(fields, 1), StandardCharsets.UTF_8));
                default -> throw new IOException("frame " + frame + " may not come here");
            }
        }

        private static Deque<Long> packed(List<Object> pieces) {
            var numbers = new ArrayDeque<Long>();
            for (Object piece : pieces) {
                if (piece instanceof Long number) numbers.add(number);
                else for (var in = ByteBuffer.wrap((byte[]) piece); in.hasRemaining(); ) numbers.add(readVarint(in));
            }
            return numbers;
        }

        private void arrive(Message message) {
            inbox.add(message);
            if (FAULT.equals("early-return")) giveBack(message);
            if (isStopped) consume();
        }

        /** The application needs no more: what is here, and what still comes, is dropped and returned. */
        void stop(String reason) throws IOException {
            isStopped = true;
            write(encode(1, encode(12, encode(1, reason))));
            while (!inbox.isEmpty()) consume();
        }

        /** The oldest message that was not taken; null: none is here. */
        Message next() {
            long withheld = agreed.rowPermits() - agreed.initialPermits();
            if (!hasAsked && withheld > 0) due.merge("chunk", withheld, Long::sum);
            hasAsked = true;
            return taken < inbox.size() ? inbox.get(taken++) : null;
        }

        void consume() {
            taken--;
            var message = inbox.remove(0);
            if (message.frame != null && --message.frame.left == 0) bytes += message.frame.size;
            if (!FAULT.equals("early-return")) giveBack(message);
        }

        private void giveBack(Message message) {
            if (!message.kind.equals("chunk")) due.merge(message.kind, 1L, Long::sum);
            else if ((unreturned += agreed.cost(message)) >= agreed.permitBatch()) returnAll();
        }

        private void returnAll() {
            due.merge("chunk", unreturned, Long::sum);
            unreturned = 0;
        }

        /** Return what is due; an idle receiver returns the residue below a batch as well. */
        void returnDue() throws IOException {
            boolean isIdle = inbox.isEmpty();
            if (isIdle && unreturned > 0 && !FAULT.equals("no-flush")) returnAll();
            byte[] feedback = null, returned = null;
            if (!due.isEmpty()) {
                feedback = encode(10, encode(1, due.get("chunk"), 2, due.get("barrier"), 3, due.get("watermark")));
                due.clear();
            }
            if (bytes > 0 && !FAULT.equals("ignores-bytes") && (feedback != null || bytes >= byteBatch)) {
                returned = encode(11, bytes);
                bytes = 0;
            }
            if (feedback != null || returned != null) write(encode(1, feedback, 1, returned));
            if (isOver || ending == null || ending.getKey().equals("ended") && !isIdle) return;
            if (ending.getKey().equals("ended")) write(encode(1, encode(13, encode(1, isStopped ? CANCELLED : until))));
            closeHalf();
        }
    }
}
