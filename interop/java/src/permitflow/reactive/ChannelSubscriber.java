package permitflow.reactive;

import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import io.grpc.Channel;
import io.grpc.Metadata;
import io.grpc.Status;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;
import permitflow.wire.v1.Exchange.Abort;
import permitflow.wire.v1.Exchange.DownstreamFrame;
import permitflow.wire.v1.Exchange.End;
import permitflow.wire.v1.Exchange.EndOutcome;
import permitflow.wire.v1.Exchange.FromDownstream;
import permitflow.wire.v1.Exchange.FromUpstream;
import permitflow.wire.v1.Exchange.Put;
import permitflow.wire.v1.Exchange.UpstreamFrame;

/**
 * A subscriber that puts what it gets into a channel of an exchange.
 *
 * <p>It keeps at most {@code prefetch} messages: it requests so many at first, and half as many whenever half have left.
 * A message leaves when the channel's flow admits it, and gRPC's own queue has room.
 */
public final class ChannelSubscriber extends Drain implements Subscriber<Message> {
  /** Messages that leave together, because they share a record batch. */
  private record Train(Message.Kind kind, List<Long> rows, ByteString batch, Object value) {}

  private final Wire wire;
  private final Put put;
  private final int prefetch;
  private final CompletableFuture<String> outcome = new CompletableFuture<>();
  private final Queue<Message> incoming = new ConcurrentLinkedQueue<>();
  private volatile Throwable upstreamError;
  private volatile boolean isDone;
  private volatile boolean isSubscribed;

  // All below belongs to the thread that drains.
  private final Queue<Train> waiting = new ArrayDeque<>();
  private final List<Long> gathered = new ArrayList<>();
  private Subscription subscription;
  private boolean isStarted;
  private long toRequest;
  private int left;
  private Flow flow;
  private boolean hasEnded;
  private String answer;
  private Throwable failure;
  private long chunks;
  private long rows;
  private long barriers;
  private long byteWindow;
  private long bytesOut;

  /**
   * For one subscription.
   *
   * @param grpc where the exchange is
   * @param channel its name
   * @param schema of the record batches that will come, as Arrow encodes it
   * @param prefetch messages that are kept, at least 1
   */
  public ChannelSubscriber(Channel grpc, String channel, ByteString schema, int prefetch) {
    if (prefetch < 1) {
      throw new IllegalArgumentException("prefetch must be at least 1, not " + prefetch);
    }
    wire = new Wire(grpc, "PutStream");
    put = Put.newBuilder().setProtocolVersion(Wire.PROTOCOL_VERSION).setChannel(channel).setSchema(schema).build();
    this.prefetch = prefetch;
  }

  /**
   * What became of the messages, once the stream has ended and the exchange has answered: {@code accepted}, or {@code
   * cancelled} if the channel's consumer needs no more. If the stream has failed, its error.
   */
  public CompletableFuture<String> outcome() {
    return outcome;
  }

  // The publisher's side.

  @Override
  public void onSubscribe(Subscription given) {
    Objects.requireNonNull(given, "subscription");
    synchronized (put) {
      if (isSubscribed) {
        given.cancel();
        return;
      }
      isSubscribed = true;
    }
    subscription = given;
    toRequest = prefetch;
    drain();
  }

  @Override
  public void onNext(Message message) {
    incoming.add(Objects.requireNonNull(message, "message"));
    drain();
  }

  @Override
  public void onError(Throwable error) {
    upstreamError = Objects.requireNonNull(error, "error");
    isDone = true;
    drain();
  }

  @Override
  public void onComplete() {
    isDone = true;
    drain();
  }

  // The exchange's side.

  @Override
  void onBytes(byte[] bytes) throws InvalidProtocolBufferException {
    wire.read();
    FromDownstream message = FromDownstream.parseFrom(wire.check(bytes));
    wire.answer(message.getSign(), true);
    for (DownstreamFrame frame : message.getFramesList()) {
      switch (frame.getFrameCase()) {
        case AGREEMENT -> {
          flow = Flow.of(frame.getAgreement());
          byteWindow = frame.getAgreement().getByteWindow();
        }
        case RETURNED_BYTES -> bytesOut -= frame.getReturnedBytes();
        case FEEDBACK -> flow.hear(frame.getFeedback());
        case CANCEL -> {
          answer = "cancelled";
          stopUpstream();
        }
        case ENDED -> {
          if (answer == null) {
            answer = name(frame.getEnded().getOutcome());
          }
          wire.halfClose();
        }
        case FAILURE -> fail(Wire.failure(frame.getFailure().getError()));
        default -> throw new ChannelException("a frame of the exchange is not expected: " + frame.getFrameCase());
      }
    }
  }

  private static String name(EndOutcome outcome) {
    return outcome.name().replace("END_OUTCOME_", "").toLowerCase(Locale.ROOT);
  }

  @Override
  void onClosed(Status status, Metadata trailers) {
    if (status.isOk() && hasEnded && failure == null) {
      outcome.complete(answer);
    } else {
      fail(Wire.closed(status, trailers));
      outcome.completeExceptionally(failure);
    }
  }

  @Override
  void fail(Throwable error) {
    if (failure == null) {
      failure = error;
      stopUpstream();
      wire.halfClose();
      outcome.completeExceptionally(error);
    }
  }

  /** Nothing more is wanted: cancel, unless the publisher has ended by itself. */
  private void stopUpstream() {
    waiting.clear();
    incoming.clear();
    Subscription cancelled = subscription;
    subscription = null;
    if (cancelled != null && !isDone) {
      cancelled.cancel();
    }
  }

  @Override
  void act() {
    if (!isStarted) {
      isStarted = true;
      wire.start(this, message(UpstreamFrame.newBuilder().setPut(put)));
    }
    takeEvents();
    if (failure == null && !hasEnded) {
      try {
        take();
        write();
      } catch (RuntimeException error) {
        giveUp(error);
      }
    }
    long count = toRequest;
    toRequest = 0;
    if (count > 0 && subscription != null && !isDone) {
      subscription.request(count);
    }
  }

  /** Sort what has come into what leaves together. */
  private void take() {
    for (Message message = incoming.poll(); message != null; message = incoming.poll()) {
      if (message.kind() != Message.Kind.CHUNK) {
        waiting.add(new Train(message.kind(), List.of(), null, message.value()));
        continue;
      }
      if (message.firstRow() != gathered.stream().mapToLong(Long::longValue).sum()) {
        throw new ChannelException("chunks that share a record batch must come together, in their order");
      }
      gathered.add(message.rows());
      if (message.isLast()) {
        waiting.add(new Train(message.kind(), List.copyOf(gathered), message.batch(), null));
        gathered.clear();
      } else {
        // It shares the batch of the last one, and takes no memory of its own.
        noteLeft();
      }
    }
  }

  private void write() {
    while (flow != null && !waiting.isEmpty() && wire.isReady()) {
      Train train = waiting.element();
      if (!flow.admits(train.kind(), train.rows()) || !fits(train)) {
        break;
      }
      waiting.remove();
      flow.leave(train.kind(), train.rows());
      send(train);
      noteLeft();
    }
    if (upstreamError != null) {
      giveUp(upstreamError);
    } else if (answer != null || (isDone && flow != null && waiting.isEmpty() && incoming.isEmpty())) {
      hasEnded = true;
      wire.send(
          message(
              UpstreamFrame.newBuilder()
                  .setEnd(
                      End.newBuilder()
                          .setChunks(chunks)
                          .setRows(rows)
                          .setBarriers(barriers)
                          .setClosesChannel(true)
                          .setUntil(EndOutcome.END_OUTCOME_ACCEPTED))));
    }
  }

  private void noteLeft() {
    if (++left >= Math.max(1, prefetch / 2)) {
      toRequest += left;
      left = 0;
    }
  }

  private void giveUp(Throwable error) {
    if (flow != null) {
      wire.send(message(UpstreamFrame.newBuilder().setAbort(Abort.newBuilder().setReason(String.valueOf(error)))));
    }
    fail(error);
  }

  /** Does the byte window admit it?  A train larger than the window leaves while less than a quarter is out. */
  private boolean fits(Train train) {
    return train.batch() == null
        || bytesOut + train.batch().size() <= byteWindow
        || bytesOut < Math.max(1, byteWindow / 4);
  }

  private void send(Train train) {
    switch (train.kind()) {
      case CHUNK -> {
        bytesOut += train.batch().size();
        chunks += train.rows().size();
        rows += train.rows().stream().mapToLong(Long::longValue).sum();
        wire.send(Wire.chunks(train.rows(), train.batch()));
      }
      case BARRIER -> {
        barriers++;
        wire.send(message(UpstreamFrame.newBuilder().setBarrier(Wire.marker(train.value()))));
      }
      case WATERMARK -> wire.send(message(UpstreamFrame.newBuilder().setWatermark(Wire.marker(train.value()))));
    }
  }

  private static FromUpstream message(UpstreamFrame.Builder frame) {
    return FromUpstream.newBuilder().addFrames(frame).build();
  }
}
