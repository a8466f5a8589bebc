import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** An object of JSON, as far as the kit's requests need it; the JDK has no reader of its own. */
final class Json {
    private final Map<String, Object> fields;
    private final String source;
    private int at;

    Json(String source) {
        this.source = source;
        this.fields = object().fields;
    }

    private Json(Map<String, Object> fields) {
        this.source = "";
        this.fields = fields;
    }

    long number(String name) {
        return ((Number) fields.get(name)).longValue();
    }

    /** Null: there is none. */
    String text(String name) {
        return (String) fields.get(name);
    }

    byte[] bytes(String name) {
        return Base64.getDecoder().decode(text(name));
    }

    Json object(String name) {
        return (Json) fields.get(name);
    }

    private char next() {
        while (Character.isWhitespace(source.charAt(at))) at++;
        return source.charAt(at);
    }

    private Json object() {
        var read = new LinkedHashMap<String, Object>();
        for (at++; next() != '}'; ) {
            if (next() == ',') at++;
            next();
            String name = string();
            next();
            at++; // the colon
            read.put(name, value());
        }
        at++;
        return new Json(read);
    }

    private Object value() {
        switch (next()) {
            case '{':
                return object();
            case '"':
                return string();
            case '[':
                var values = new ArrayList<Object>();
                for (at++; next() != ']'; ) {
                    if (next() == ',') at++;
                    values.add(value());
                }
                at++;
                return values;
            default:
                int start = at;
                while (at < source.length() && ",}] ".indexOf(source.charAt(at)) < 0) at++;
                String word = source.substring(start, at);
                return switch (word) {
                    case "true" -> true;
                    case "false" -> false;
                    case "null" -> null;
                    default -> Double.valueOf(word);
                };
        }
    }

    private String string() {
        var text = new StringBuilder();
        for (at++; source.charAt(at) != '"'; at++) {
            if (source.charAt(at) != '\\') {
                text.append(source.charAt(at));
                continue;
            }
            char escaped = source.charAt(++at);
            if (escaped == 'u') {
                text.append((char) Integer.parseInt(source.substring(at + 1, at + 5), 16));
                at += 4;
            } else {
                int place = "bfnrt".indexOf(escaped);
                text.append(place < 0 ? escaped : "\b\f\n\r\t".charAt(place));
            }
        }
        at++;
        return text.toString();
    }

    /** A value as text. */
    static String text(Object value) {
        if (value instanceof Map<?, ?> map) {
            var parts = new ArrayList<String>();
            map.forEach((name, each) -> parts.add(text(name) + ":" + text(each)));
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof List<?> list) return "[" + String.join(",", list.stream().map(Json::text).toList()) + "]";
        if (!(value instanceof String text)) return String.valueOf(value);
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + "\"";
    }
}
