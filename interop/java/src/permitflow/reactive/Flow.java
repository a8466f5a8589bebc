package permitflow.reactive;

import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import java.util.List;
import permitflow.wire.v1.Exchange.Agreement;
import permitflow.wire.v1.demand.Demand;
import permitflow.wire.v1.permits.Permits;

/** What may be sent when: the flows {@code permits} and {@code demand}, at both ends. */
abstract class Flow {
  /** The flow on which both ends have agreed. */
  static Flow of(Agreement agreement) throws InvalidProtocolBufferException {
    return switch (agreement.getFlow()) {
      case "permits" -> new OfPermits(Permits.Parameters.parseFrom(agreement.getParameters()));
      case "demand" -> new OfDemand(Demand.Parameters.parseFrom(agreement.getParameters()));
      default ->
          throw new ChannelException(
              "the channel's flow is '" + agreement.getFlow() + "': this end knows permits and demand");
    };
  }

  /** Sending: may these leave now, all of them? */
  abstract boolean admits(Message.Kind kind, Iterable<Long> rows);

  /** Sending: they have left. */
  abstract void leave(Message.Kind kind, Iterable<Long> rows);

  /** Sending: the peer's feedback. */
  abstract void hear(ByteString feedback) throws InvalidProtocolBufferException;

  /** Receiving: it has come. */
  abstract void arrive(Message message);

  /** Receiving: the application is done with it. */
  abstract void consume(Message message);

  /**
   * Receiving: what to tell the peer now, or null.
   *
   * @param wanted messages that are wanted besides those that are here
   * @param here messages that are here
   */
  abstract ByteString feedback(long wanted, int here);

  private static final class OfPermits extends Flow {
    private final Permits.Parameters parameters;
    // Sending: permits here. Receiving: permits that the peer may spend.
    private long rows;
    private long barriers;
    private long watermarks = 1;
    // Receiving: permits that the peer gets when the application first asks for a message.
    private long withheld;
    private long consumedRows;
    private long consumedBarriers;
    private long consumedWatermarks;

    OfPermits(Permits.Parameters parameters) {
      this.parameters = parameters;
      rows = parameters.hasInitialPermits() ? parameters.getInitialPermits() : parameters.getRowPermits();
      withheld = parameters.getRowPermits() - rows;
      barriers = parameters.getBarrierPermits();
    }

    private long cost(long rowsOfChunk) {
      long most = parameters.getMaxChunkCost();
      if (rowsOfChunk > most && !parameters.getOversize().equals("whole")) {
        throw new ChannelException(
            "a chunk of " + rowsOfChunk + " rows is above the channel's max_chunk_cost of " + most
                + ": send smaller chunks");
      }
      return Math.max(1, Math.min(rowsOfChunk, most));
    }

    private long cost(Iterable<Long> all) {
      long sum = 0;
      for (long each : all) {
        sum += cost(each);
      }
      if (sum > parameters.getRowPermits()) {
        throw new ChannelException(
            "chunks that share a record batch take " + sum + " permits, and the channel has "
                + parameters.getRowPermits() + ": give it as many as the channel that they come from");
      }
      return sum;
    }

    @Override
    boolean admits(Message.Kind kind, Iterable<Long> all) {
      return switch (kind) {
        case CHUNK -> cost(all) <= rows;
        case BARRIER -> barriers > 0;
        case WATERMARK -> watermarks > 0;
      };
    }

    @Override
    void leave(Message.Kind kind, Iterable<Long> all) {
      switch (kind) {
        case CHUNK -> rows -= cost(all);
        case BARRIER -> barriers--;
        case WATERMARK -> watermarks--;
      }
    }

    @Override
    void hear(ByteString feedback) throws InvalidProtocolBufferException {
      Permits.Feedback said = Permits.Feedback.parseFrom(feedback);
      rows += said.getRows();
      barriers += said.getBarriers();
      watermarks += said.getWatermarks();
      if (rows > parameters.getRowPermits() || barriers > parameters.getBarrierPermits() || watermarks > 1) {
        throw new ChannelException("the peer returned more permits than it holds");
      }
    }

    @Override
    void arrive(Message message) {
      leave(message.kind(), List.of(message.rows()));
      if (rows < 0 || barriers < 0 || watermarks < 0) {
        throw new ChannelException("the peer sent a message without the permits for it");
      }
    }

    @Override
    void consume(Message message) {
      switch (message.kind()) {
        case CHUNK -> consumedRows += cost(message.rows());
        case BARRIER -> consumedBarriers++;
        case WATERMARK -> consumedWatermarks++;
      }
    }

    @Override
    ByteString feedback(long wanted, int here) {
      boolean isDue = consumedRows >= parameters.getPermitBatch() || consumedBarriers > 0 || consumedWatermarks > 0;
      boolean isAsking = withheld > 0 && (wanted > 0 || isDue || consumedRows > 0);
      // A receiver that has consumed everything returns the rest as well.
      if (!isDue && !isAsking && (here > 0 || consumedRows == 0)) {
        return null;
      }
      if (isAsking) {
        consumedRows += withheld;
        withheld = 0;
      }
      Permits.Feedback said =
          Permits.Feedback.newBuilder()
              .setRows(consumedRows)
              .setBarriers(consumedBarriers)
              .setWatermarks(consumedWatermarks)
              .build();
      rows += consumedRows;
      barriers += consumedBarriers;
      watermarks += consumedWatermarks;
      consumedRows = consumedBarriers = consumedWatermarks = 0;
      return said.toByteString();
    }
  }

  private static final class OfDemand extends Flow {
    private final Demand.Parameters parameters;
    // Sending: messages that may leave. Receiving: messages that may still come.
    private long credit;

    OfDemand(Demand.Parameters parameters) {
      this.parameters = parameters;
      credit = parameters.getInitial();
    }

    private static long count(Iterable<Long> all) {
      long count = 0;
      for (long ignored : all) {
        count++;
      }
      return count;
    }

    @Override
    boolean admits(Message.Kind kind, Iterable<Long> all) {
      long messages = kind == Message.Kind.CHUNK ? count(all) : 1;
      if (messages > parameters.getSize()) {
        throw new ChannelException(
            messages + " chunks share a record batch, and the channel's size is " + parameters.getSize()
                + ": give it the size of the channel that they come from");
      }
      return messages <= credit;
    }

    @Override
    void leave(Message.Kind kind, Iterable<Long> all) {
      credit -= kind == Message.Kind.CHUNK ? count(all) : 1;
    }

    @Override
    void hear(ByteString feedback) throws InvalidProtocolBufferException {
      credit += Demand.Feedback.parseFrom(feedback).getMessages();
      if (credit > parameters.getSize()) {
        throw new ChannelException("the peer requested more messages than may be out");
      }
    }

    @Override
    void arrive(Message message) {
      if (--credit < 0) {
        throw new ChannelException("the peer sent a message that was not requested");
      }
    }

    @Override
    void consume(Message message) {}

    @Override
    ByteString feedback(long wanted, int here) {
      // No more are here or on their way than the window holds, and than the subscriber has requested.
      long more = Math.min(wanted, parameters.getSize() - here) - credit;
      if (more <= 0 || (more < parameters.getBatch() && credit > 0)) {
        return null;
      }
      credit += more;
      return Demand.Feedback.newBuilder().setMessages(more).build().toByteString();
    }
  }
}
