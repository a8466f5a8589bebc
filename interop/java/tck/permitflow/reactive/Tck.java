package permitflow.reactive;

import com.google.protobuf.ByteString;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.reactivestreams.Publisher;
import org.reactivestreams.tck.TestEnvironment;

/** What the tests of the TCK share: the exchange, whose channels are used up one by one, and an element. */
final class Tck {
  static final TestEnvironment ENVIRONMENT = new TestEnvironment(500, 100);

  private static final ManagedChannel GRPC =
      ManagedChannelBuilder.forTarget(System.getProperty("permitflow.exchange")).usePlaintext().build();
  private static final ByteString SCHEMA = read("permitflow.schema");
  private static final ByteString ROW = read("permitflow.row");
  private static final AtomicInteger CHANNELS = new AtomicInteger();

  static {
    // The first call of a program takes longer than the tests wait.
    try {
      new ChannelPublisher(GRPC, "no such channel").schema().join();
    } catch (CompletionException refused) {
      // As it must be.
    }
  }

  private Tck() {}

  private static ByteString read(String property) {
    try {
      return ByteString.copyFrom(Files.readAllBytes(Path.of(System.getProperty(property))));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  static String newChannel() {
    return "tck/" + CHANNELS.getAndIncrement();
  }

  static Message row() {
    return Message.chunk(ROW, 1);
  }

  static ChannelSubscriber writer(String channel) {
    return new ChannelSubscriber(GRPC, channel, SCHEMA, 4);
  }

  /** Publishes a channel into which another subscriber of ours puts so many rows. */
  static Publisher<Message> published(long rows, String flow) {
    String channel = newChannel();
    new Rows(rows).subscribe(writer(channel));
    return new ChannelPublisher(GRPC, channel, flow);
  }

  static Publisher<Message> unknown() {
    return new ChannelPublisher(GRPC, "no such channel");
  }
}
