package permitflow.reactive;

import com.google.protobuf.InvalidProtocolBufferException;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What both ends share: whatever happens, in whichever thread, is put into a queue, and one thread at a time acts on
 * it. So all state of an end has one thread at a time, signals never overlap, and none comes within another.
 */
abstract class Drain extends ClientCall.Listener<byte[]> {
  private record Closed(Status status, Metadata trailers) {}

  private final Queue<Object> events = new ConcurrentLinkedQueue<>();
  private final AtomicInteger due = new AtomicInteger();

  /** Act on what has happened. */
  final void drain() {
    if (due.getAndIncrement() != 0) {
      return;
    }
    int seen = 1;
    do {
      act();
      seen = due.addAndGet(-seen);
    } while (seen != 0);
  }

  /** Take the events that have come from the peer. */
  final void takeEvents() {
    for (Object event = events.poll(); event != null; event = events.poll()) {
      try {
        if (event instanceof Closed closed) {
          onClosed(closed.status(), closed.trailers());
        } else {
          onBytes((byte[]) event);
        }
      } catch (InvalidProtocolBufferException error) {
        fail(Wire.undecodable(error));
      } catch (RuntimeException error) {
        fail(error);
      }
    }
  }

  /** Do everything that is due; called by one thread at a time. */
  abstract void act();

  abstract void onBytes(byte[] message) throws InvalidProtocolBufferException;

  abstract void onClosed(Status status, Metadata trailers);

  /** The stream cannot go on. */
  abstract void fail(Throwable error);

  @Override
  public void onMessage(byte[] message) {
    events.add(message);
    drain();
  }

  @Override
  public void onReady() {
    drain();
  }

  @Override
  public void onClose(Status status, Metadata trailers) {
    events.add(new Closed(status, trailers));
    drain();
  }
}
