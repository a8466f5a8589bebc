package permitflow.reactive;

import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import io.grpc.Channel;
import io.grpc.Metadata;
import io.grpc.Status;
import java.util.ArrayDeque;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;
import permitflow.wire.v1.Exchange.Cancel;
import permitflow.wire.v1.Exchange.DownstreamFrame;
import permitflow.wire.v1.Exchange.End;
import permitflow.wire.v1.Exchange.EndOutcome;
import permitflow.wire.v1.Exchange.Ended;
import permitflow.wire.v1.Exchange.FromDownstream;
import permitflow.wire.v1.Exchange.FromUpstream;
import permitflow.wire.v1.Exchange.Get;
import permitflow.wire.v1.Exchange.Sign;
import permitflow.wire.v1.Exchange.UpstreamFrame;
import permitflow.wire.v1.demand.Demand;
import permitflow.wire.v1.permits.Permits;

/**
 * Publishes a channel of an exchange; each subscriber reads the channel by a stream of its own.
 *
 * <p>A message is consumed, and its permits return, when {@code onNext} has returned. With the flow {@code permits}, as
 * many rows as the channel has permits may wait here for requests; with the flow {@code demand}, nothing does: requests
 * go to the exchange.
 */
public final class ChannelPublisher implements Publisher<Message> {
  private static final Logger LOG = Logger.getLogger(ChannelPublisher.class.getName());

  private final Channel grpc;
  private final Get get;

  /** The channel of this name, at the exchange that gRPC has dialled. */
  public ChannelPublisher(Channel grpc, String channel) {
    this(grpc, channel, "");
  }

  /**
   * The same, and the channel must have this flow; nothing comes before the first request.
   *
   * @param flow {@code permits} or {@code demand}; empty for either
   */
  public ChannelPublisher(Channel grpc, String channel, String flow) {
    this.grpc = Objects.requireNonNull(grpc, "grpc");
    Get.Builder wishes =
        Get.newBuilder().setProtocolVersion(Wire.PROTOCOL_VERSION).setChannel(channel).setFlow(flow);
    if (flow.equals("demand")) {
      wishes.setWanted(Demand.Parameters.newBuilder().setInitial(0).build().toByteString());
    } else if (flow.equals("permits")) {
      wishes.setWanted(Permits.Parameters.newBuilder().setInitialPermits(0).build().toByteString());
    }
    get = wishes.build();
  }

  @Override
  public void subscribe(Subscriber<? super Message> subscriber) {
    Reading reading = new Reading(grpc, Objects.requireNonNull(subscriber, "subscriber"), null);
    subscriber.onSubscribe(reading);
    reading.start(get);
  }

  /** The schema of the channel, as Arrow encodes it; nothing is read. */
  public CompletableFuture<ByteString> schema() {
    CompletableFuture<ByteString> schema = new CompletableFuture<>();
    Reading reading = new Reading(grpc, null, schema);
    reading.start(get.toBuilder().setProbe(true).build());
    return schema;
  }

  /** The stream of one subscriber. */
  private static final class Reading extends Drain implements Subscription {
    private final Wire wire;
    private final CompletableFuture<ByteString> schema;
    private final Queue<Message> inbox = new ArrayDeque<>();
    private final AtomicLong requested = new AtomicLong();
    private volatile Throwable refused;
    private volatile boolean isCancelled;
    private volatile boolean isStarted;

    // All below belongs to the thread that drains.
    private Subscriber<? super Message> subscriber;
    private Flow flow;
    private End end;
    private Throwable failure;
    private boolean hasCancelled;
    private boolean isClosed;
    private long chunks;
    private long rows;
    private long barriers;
    private long byteBatch;
    private long unreturnedBytes;

    Reading(Channel grpc, Subscriber<? super Message> subscriber, CompletableFuture<ByteString> schema) {
      wire = new Wire(grpc, "GetStream");
      this.subscriber = subscriber;
      this.schema = schema;
      isCancelled = subscriber == null;
      hasCancelled = isCancelled;
    }

    void start(Get get) {
      wire.start(
          this, FromDownstream.newBuilder().addFrames(DownstreamFrame.newBuilder().setGet(get)).build());
      isStarted = true;
      drain();
    }

    // The subscriber's side.

    @Override
    public void request(long n) {
      if (n < 1) {
        refused =
            new IllegalArgumentException(
                "request(" + n + "): ask for at least 1 element (rule 3.9 of Reactive Streams)");
      } else {
        requested.accumulateAndGet(n, (before, more) -> before + more < 0 ? Long.MAX_VALUE : before + more);
      }
      drain();
    }

    @Override
    public void cancel() {
      isCancelled = true;
      drain();
    }

    // The exchange's side.

    @Override
    void onBytes(byte[] bytes) throws InvalidProtocolBufferException {
      wire.read();
      FromUpstream message = FromUpstream.parseFrom(wire.check(bytes));
      wire.answer(message.getSign(), false);
      int at = 0;
      for (UpstreamFrame frame : message.getFramesList()) {
        switch (frame.getFrameCase()) {
          case AGREEMENT -> {
            flow = Flow.of(frame.getAgreement());
            byteBatch = Math.max(1, frame.getAgreement().getByteWindow() / 4);
            if (schema != null) {
              schema.complete(frame.getAgreement().getSchema());
            }
          }
          case CHUNKS -> {
            int size = Math.toIntExact(frame.getChunks().getSizeBytes());
            ByteString batch = message.getBody().substring(at, at + size);
            at += size;
            int left = frame.getChunks().getRowsCount();
            long first = 0;
            for (long each : frame.getChunks().getRowsList()) {
              arrive(new Message(Message.Kind.CHUNK, each, batch, first, --left == 0, null));
              first += each;
            }
          }
          case BARRIER -> arrive(Message.barrier(Wire.value(frame.getBarrier())));
          case WATERMARK -> arrive(Message.watermark(Wire.value(frame.getWatermark())));
          case END -> {
            end = frame.getEnd();
            if (end.getChunks() != chunks || end.getRows() != rows || end.getBarriers() != barriers) {
              throw new ChannelException(
                  "the peer has sent " + end.getChunks() + " chunks, " + end.getRows() + " rows and "
                      + end.getBarriers() + " barriers, and " + chunks + ", " + rows + " and " + barriers
                      + " have come");
            }
          }
          case ABORT -> {
            inbox.clear();
            fail(new ChannelException("the producer gave up: " + frame.getAbort().getReason()));
          }
          case FAILURE -> fail(Wire.failure(frame.getFailure().getError()));
          default -> throw new ChannelException("a frame of the exchange is not expected: " + frame.getFrameCase());
        }
      }
    }

    private void arrive(Message message) {
      switch (message.kind()) {
        case CHUNK -> {
          chunks++;
          rows += message.rows();
        }
        case BARRIER -> barriers++;
        case WATERMARK -> {}
      }
      flow.arrive(message);
      inbox.add(message);
    }

    @Override
    void onClosed(Status status, Metadata trailers) {
      if (schema != null) {
        schema.completeExceptionally(Wire.closed(status, trailers));
      }
      if (end == null && failure == null) {
        failure = Wire.closed(status, trailers);
      }
      isClosed = true;
    }

    @Override
    void fail(Throwable error) {
      if (failure == null) {
        failure = error;
        if (schema != null) {
          schema.completeExceptionally(error);
        }
        if (error instanceof ChannelException) {
          wire.halfClose();
        } else {
          wire.hangUp(String.valueOf(error.getMessage()));
        }
      }
    }

    @Override
    void act() {
      if (!isStarted) {
        return;
      }
      takeEvents();
      while (subscriber != null) {
        if (isCancelled) {
          subscriber = null;
        } else if (refused != null) {
          isCancelled = true;
          finish(() -> subscriber.onError(refused));
        } else if (inbox.isEmpty() && failure != null) {
          finish(() -> subscriber.onError(failure));
        } else if (!inbox.isEmpty() && requested.get() > 0) {
          requested.decrementAndGet();
          Message message = inbox.remove();
          tell(() -> subscriber.onNext(message));
          consume(message);
          sendFeedback();
          takeEvents();
        } else if (inbox.isEmpty() && end != null) {
          finish(subscriber::onComplete);
        } else {
          break;
        }
      }
      settle();
    }

    private void finish(Runnable signal) {
      tell(signal);
      subscriber = null;
    }

    private void tell(Runnable signal) {
      try {
        signal.run();
      } catch (RuntimeException error) {
        LOG.log(Level.WARNING, "a subscriber has raised an error, and is cancelled", error);
        isCancelled = true;
      }
    }

    /** Tell the exchange what is due. */
    private void settle() {
      if (failure != null || isClosed) {
        return;
      }
      if (isCancelled && !hasCancelled) {
        hasCancelled = true;
        if (flow == null) {
          fail(new IllegalStateException("the subscriber has cancelled"));
          return;
        }
        if (end == null) {
          send(DownstreamFrame.newBuilder().setCancel(Cancel.newBuilder().setReason("the subscriber needs no more")));
        }
      }
      if (flow == null) {
        return;
      }
      if (subscriber == null) {
        for (Message message = inbox.poll(); message != null; message = inbox.poll()) {
          consume(message);
        }
      }
      sendFeedback();
      if (end != null && inbox.isEmpty()) {
        EndOutcome outcome =
            isCancelled && schema == null ? EndOutcome.END_OUTCOME_CANCELLED : EndOutcome.END_OUTCOME_CONSUMED;
        send(DownstreamFrame.newBuilder().setEnded(Ended.newBuilder().setOutcome(outcome)));
        wire.halfClose();
      }
    }

    private void consume(Message message) {
      flow.consume(message);
      if (message.kind() == Message.Kind.CHUNK && message.isLast()) {
        unreturnedBytes += message.batch().size();
      }
    }

    private void sendFeedback() {
      if (failure != null || isClosed) {
        return;
      }
      ByteString said = flow.feedback(Math.max(0, requested.get() - inbox.size()), inbox.size());
      if (said != null) {
        send(DownstreamFrame.newBuilder().setFeedback(said));
      }
      if (unreturnedBytes > 0 && (said != null || unreturnedBytes >= byteBatch)) {
        send(DownstreamFrame.newBuilder().setReturnedBytes(unreturnedBytes));
        unreturnedBytes = 0;
      }
    }

    private void send(DownstreamFrame.Builder frame) {
      wire.send(FromDownstream.newBuilder().addFrames(frame).build());
    }
  }
}
