import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;

/** Lets {@code permitflow conform --command} judge the ends in Wire.java: docs/guides/foreign-implementations.md. */
final class Driver {
    private final Object lock = new Object();
    private Wire.End end;
    private ServerSocket server;
    private Json opening;
    private boolean isEnding;
    private final Map<Wire.Message, Json> sends = new IdentityHashMap<>();
    private final List<Json> receives = new ArrayList<>(), endings = new ArrayList<>();

    public static void main(String[] arguments) throws IOException {
        var driver = new Driver();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) driver.take(new Json(line));
        System.exit(0);
    }

    private void take(Json request) {
        synchronized (lock) {
            try {
                if (end != null && end.failure != null && !request.text("do").equals("close")) throw new IOException(end.failure);
                Object content = handle(request);
                if (content != null) ok(request, content);
                step();
            } catch (IOException | RuntimeException error) {
                answer(request, "error", error.toString());
            }
        }
    }

    private static void answer(Json request, String outcome, Object content) {
        System.out.println("{\"id\":" + request.number("id") + ",\"" + outcome + "\":" + Json.text(content) + "}");
        System.out.flush();
    }

    private static void ok(Json request, Object content) {
        answer(request, "ok", content);
    }

    /** What is answered at once; null: it is answered later. */
    private Object handle(Json request) throws IOException {
        switch (request.text("do")) {
            case "hello" -> {
                return Map.of("protocol", 2, "name", "permitflow on Java", "ends", List.of("sender", "receiver"), "flows", List.of("permits"));
            }
            case "open" -> {
                return open(request);
            }
            case "settle" -> {
                return Map.of("handled", end.handled, "written", end.written, "state", state());
            }
            case "send", "send_barrier" -> {
                var message = message(request, request.text("do").equals("send") ? "chunk" : "barrier");
                sends.put(message, request);
                sender().offer(message);
                return null;
            }
            case "send_now" -> {
                var message = message(request, "chunk");
                if (!sender().line.isEmpty() || !sender().pay(message)) {
                    answer(request, "refused", "it may not leave now");
                    return null;
                }
                sender().post(message);
            }
            case "end", "receive" -> {
                (request.text("do").equals("end") ? endings : receives).add(request);
                return null;
            }
            case "send_watermark" -> sender().announce(request.number("value"));
            case "abort" -> sender().abort(request.text("reason"));
            case "consume" -> ((Wire.Receiver) end).consume();
            case "stop" -> ((Wire.Receiver) end).stop(request.text("reason"));
            case "cancel" -> cancel(request.number("request"));
            case "close" -> close();
            default -> throw new IOException("there is no word " + request.text("do"));
        }
        return Map.of();
    }

    private Wire.Sender sender() {
        return (Wire.Sender) end;
    }

    private static Wire.Message message(Json request, String kind) {
        boolean isChunk = kind.equals("chunk");
        return new Wire.Message(kind, isChunk ? request.number("rows") : 0, isChunk ? request.bytes("batch") : null);
    }

    private Object open(Json request) throws IOException {
        var of = request.object("parameters");
        var agreed = new Wire.Parameters(of.number("row_permits"), of.number("permit_batch"), of.number("max_chunk_cost"),
                of.number("barrier_permits"), of.text("oversize"), of.number("initial_permits"));
        isEnding = false;
        end = request.text("end").equals("sender")
                ? new Wire.Sender(request.text("channel"), agreed, request.bytes("schema"), lock, this::stepOrFail)
                : new Wire.Receiver(request.text("channel"), agreed, request.bytes("schema"), lock, this::stepOrFail);
        if (request.text("address") != null) {
            end.dial(request.text("address"));
            opening = request;
            return null;
        }
        var at = URI.create(request.text("listen"));
        server = new ServerSocket(at.getPort(), 1, InetAddress.getByName(at.getHost()));
        end.accept(server);
        return Map.of("address", "tcp://" + at.getHost() + ":" + server.getLocalPort());
    }

    private void close() throws IOException {
        if (end != null) end.close();
        if (server != null) server.close();
        sends.clear();
        receives.clear();
        endings.clear();
        end = null;
        server = null;
        opening = null;
    }

    private void cancel(long id) {
        if (end instanceof Wire.Sender sender) {
            for (int place = 0; place < sender.line.size(); place++) {
                var message = sender.line.get(place);
                if (sends.get(message).number("id") == id) {
                    sender.withdraw(place);
                    answer(sends.remove(message), "cancelled", true);
                    return;
                }
            }
        }
        for (var waiting : List.of(receives, endings)) {
            for (Json request : List.copyOf(waiting)) {
                if (request.number("id") == id && waiting.remove(request)) answer(request, "cancelled", true);
            }
        }
    }

    private void stepOrFail() {
        try {
            step();
        } catch (IOException error) {
            end.failure = error.toString();
        }
    }

    /** Do all that can be done now; called after each request, and after each message that has come over the wire. */
    private void step() throws IOException {
        if (end == null) return;
        if (opening != null && (end.isOpen || end.failure != null)) {
            if (end.isOpen) ok(opening, Map.of());
            else answer(opening, "error", end.failure);
            opening = null;
        }
        if (!end.isOpen) return;
        if (end instanceof Wire.Sender sender) {
            for (Wire.Message sent; (sent = sender.sendOne()) != null; ) {
                if (sends.containsKey(sent)) ok(sends.remove(sent), Map.of());
            }
            for (var message : List.copyOf(sends.keySet())) {
                if (!sender.line.contains(message)) answer(sends.remove(message), "error", "the stream is over");
            }
            isEnding |= !endings.isEmpty();
            if (isEnding && sender.line.isEmpty() && sender.watermark == null) {
                sender.end();
                for (Json request : endings) ok(request, Map.of());
                endings.clear();
            }
        } else if (end instanceof Wire.Receiver receiver) {
            while (!receives.isEmpty()) {
                var message = receiver.next();
                if (message == null && receiver.ending == null) break;
                ok(receives.remove(0), message == null ? Map.ofEntries(receiver.ending) : Map.of(message.kind(), content(message)));
            }
            receiver.returnDue();
        }
    }

    private static Object content(Wire.Message message) {
        return switch (message.kind()) {
            case "chunk" -> Map.of("rows", message.rows(), "offset", message.offset(), "batch", Base64.getEncoder().encodeToString(message.batch()));
            case "barrier" -> true;
            default -> message.value();
        };
    }

    /** What this end has; the kit compares it with what it has seen on the wire. */
    private Map<String, Object> state() {
        if (end instanceof Wire.Receiver receiver) return Map.of("unreturned", receiver.unreturned);
        var permits = sender().permits;
        return Map.of("row_permits", permits.get("chunk"), "barrier_permits", permits.get("barrier"), "watermark_permits", permits.get("watermark"));
    }
}
