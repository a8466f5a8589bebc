package permitflow.reactive;

import com.google.protobuf.ByteString;
import java.util.Objects;

/**
 * One message of a channel: a chunk, a barrier or a watermark.
 *
 * <p>A chunk is some rows of a record batch, which stays as it came: one Arrow IPC message (a whole IPC stream if the
 * schema has dictionaries). Chunks that have travelled together share one.
 *
 * @param kind what it is
 * @param rows of a chunk; else 0
 * @param batch of a chunk: the encoded record batch; else null
 * @param firstRow of a chunk: where its rows begin in the batch
 * @param isLast of a chunk: no other one follows in the batch
 * @param value of a barrier or watermark: a Long, Double, String, ByteString or null
 */
public record Message(Kind kind, long rows, ByteString batch, long firstRow, boolean isLast, Object value) {
  /** What a message is. */
  public enum Kind {
    CHUNK,
    BARRIER,
    WATERMARK
  }

  /** A chunk that is a whole record batch. */
  public static Message chunk(ByteString batch, long rows) {
    if (rows < 0) {
      throw new IllegalArgumentException("a chunk of " + rows + " rows: at least 0 are possible");
    }
    return new Message(Kind.CHUNK, rows, Objects.requireNonNull(batch, "batch"), 0, true, null);
  }

  /** A barrier. */
  public static Message barrier(Object value) {
    return new Message(Kind.BARRIER, 0, null, 0, true, value);
  }

  /** A watermark. */
  public static Message watermark(Object value) {
    return new Message(Kind.WATERMARK, 0, null, 0, true, value);
  }
}
