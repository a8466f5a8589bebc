package permitflow.reactive;

import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;

/** Copies a channel of an exchange into another one: {@code Copy HOST:PORT FROM TO [PREFETCH]}. */
public final class Copy {
  private Copy() {}

  /** The command. */
  public static void main(String[] arguments) throws Exception {
    if (arguments.length < 3 || arguments.length > 4) {
      System.err.println("usage: Copy HOST:PORT FROM TO [PREFETCH]");
      System.exit(2);
    }
    int prefetch = arguments.length > 3 ? Integer.parseInt(arguments[3]) : 16;
    ManagedChannel grpc =
        ManagedChannelBuilder.forTarget(arguments[0]).usePlaintext().maxInboundMessageSize(Wire.MOST_BYTES).build();
    try {
      ChannelPublisher from = new ChannelPublisher(grpc, arguments[1]);
      ChannelSubscriber to = new ChannelSubscriber(grpc, arguments[2], from.schema().get(), prefetch);
      from.subscribe(to);
      System.out.println(to.outcome().get());
    } finally {
      grpc.shutdownNow();
    }
  }
}
