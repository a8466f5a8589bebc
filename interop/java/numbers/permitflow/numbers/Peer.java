package permitflow.numbers;

import com.google.protobuf.ByteString;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.CallStreamObserver;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.util.concurrent.atomic.AtomicLong;
import permitflow.tests.NumbersGrpc;
import permitflow.tests.NumbersOuterClass.Number;

/**
 * The service of numbers.proto, or a client of it, with grpc-java's own flow control: {@code isReady} and {@code
 * onReady}, and {@code request} instead of automatic requests. A consumer stands still after a few messages, until it is
 * told to go on.
 *
 * <pre>
 * Peer WINDOW serve
 * Peer WINDOW HOST:PORT METHOD COUNT SIZE
 * </pre>
 *
 * <p>WINDOW: bytes of each call that may wait to be read here. Commands come as lines on standard input: "look" prints
 * how many messages were given and taken, "go" lets the consumer go on. All output is JSON, one object a line.
 */
public final class Peer {
  private static final int STANDS_STILL_AFTER = 3;

  private static final AtomicLong GIVEN = new AtomicLong();
  private static final AtomicLong TAKEN = new AtomicLong();
  private static final AtomicLong SUM = new AtomicLong();
  private static final Object GATE = new Object();
  private static boolean mayGoOn;
  private static CallStreamObserver<?> standing;

  private Peer() {}

  private static String state() {
    return "{\"given\": " + GIVEN + ", \"taken\": " + TAKEN + ", \"sum\": " + SUM + "}";
  }

  private static synchronized void tell(String object) {
    System.out.println(object);
  }

  /** Write numbers to a stream whenever it is ready, and no more. */
  private static void give(CallStreamObserver<Number> out, long count, ByteString padding) {
    out.setOnReadyHandler(
        () -> {
          while (out.isReady() && GIVEN.get() < count) {
            out.onNext(Number.newBuilder().setValue(GIVEN.incrementAndGet()).setPadding(padding).build());
            if (GIVEN.get() == count) {
              out.onCompleted();
            }
          }
        });
  }

  /** One number has come: ask for the next one, unless this end is to stand still. */
  private static void take(Number number, CallStreamObserver<?> in) {
    SUM.addAndGet(number.getValue());
    synchronized (GATE) {
      if (TAKEN.incrementAndGet() == STANDS_STILL_AFTER && !mayGoOn) {
        standing = in;
        return;
      }
    }
    in.request(1);
  }

  private static void goOn() {
    synchronized (GATE) {
      mayGoOn = true;
      if (standing != null) {
        standing.request(1);
      }
    }
  }

  private static void fail(Throwable error) {
    error.printStackTrace();
    System.exit(1);
  }

  private static final class Service extends NumbersGrpc.NumbersImplBase {
    @Override
    public void count(Number request, StreamObserver<Number> responses) {
      give((ServerCallStreamObserver<Number>) responses, request.getValue(), request.getPadding());
    }

    @Override
    public StreamObserver<Number> sum(StreamObserver<Number> responses) {
      ServerCallStreamObserver<Number> call = (ServerCallStreamObserver<Number>) responses;
      call.disableAutoRequest();
      call.request(1);
      return new StreamObserver<>() {
        @Override
        public void onNext(Number number) {
          take(number, call);
        }

        @Override
        public void onError(Throwable error) {
          // The client has gone.
        }

        @Override
        public void onCompleted() {
          call.onNext(Number.newBuilder().setValue(SUM.get()).build());
          call.onCompleted();
        }
      };
    }

    /** Asks for the next number while its own answers find room. */
    @Override
    public StreamObserver<Number> double_(StreamObserver<Number> responses) {
      ServerCallStreamObserver<Number> call = (ServerCallStreamObserver<Number>) responses;
      call.disableAutoRequest();
      boolean[] isAsked = {false};
      Runnable ask =
          () -> {
            if (call.isReady() && !isAsked[0]) {
              isAsked[0] = true;
              call.request(1);
            }
          };
      call.setOnReadyHandler(ask);
      return new StreamObserver<>() {
        @Override
        public void onNext(Number number) {
          isAsked[0] = false;
          call.onNext(number.toBuilder().setValue(2 * number.getValue()).build());
          ask.run();
        }

        @Override
        public void onError(Throwable error) {
          // The client has gone.
        }

        @Override
        public void onCompleted() {
          call.onCompleted();
        }
      };
    }
  }

  /** What a client does: gives, or takes, or both. */
  private static final class Client implements ClientResponseObserver<Number, Number> {
    private final long gives;
    private final ByteString padding;
    private final ManagedChannel channel;
    private final boolean takes;
    private ClientCallStreamObserver<Number> call;

    Client(ManagedChannel channel, long gives, ByteString padding, boolean takes) {
      this.channel = channel;
      this.gives = gives;
      this.padding = padding;
      this.takes = takes;
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<Number> started) {
      call = started;
      if (takes) {
        call.disableAutoRequestWithInitial(1);
      }
      if (gives > 0) {
        give(call, gives, padding);
      }
    }

    @Override
    public void onNext(Number number) {
      if (takes) {
        take(number, call);
      } else {
        SUM.set(number.getValue());
      }
    }

    @Override
    public void onError(Throwable error) {
      fail(error);
    }

    @Override
    public void onCompleted() {
      tell("{\"ended\": " + state() + "}");
      channel.shutdown();
    }
  }

  private static void serve(int window) throws Exception {
    Server server =
        NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
            .flowControlWindow(window)
            .addService(new Service())
            .build()
            .start();
    tell("{\"port\": " + server.getPort() + "}");
  }

  private static void call(int window, String address, String method, long count, int size) {
    ManagedChannel channel =
        NettyChannelBuilder.forTarget(address).usePlaintext().flowControlWindow(window).build();
    NumbersGrpc.NumbersStub stub = NumbersGrpc.newStub(channel);
    ByteString padding = ByteString.copyFrom(new byte[size]);
    switch (method) {
      case "Count" ->
          stub.count(
              Number.newBuilder().setValue(count).setPadding(padding).build(),
              new Client(channel, 0, padding, true));
      case "Double" -> stub.double_(new Client(channel, count, padding, true));
      case "Sum" -> stub.sum(new Client(channel, count, padding, false));
      default -> throw new IllegalArgumentException("no method " + method);
    }
  }

  /** The command. */
  public static void main(String[] arguments) throws Exception {
    int window = Integer.parseInt(arguments[0]);
    if (arguments[1].equals("serve")) {
      serve(window);
    } else {
      call(window, arguments[1], arguments[2], Long.parseLong(arguments[3]), Integer.parseInt(arguments[4]));
    }
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      if (line.equals("look")) {
        tell(state());
      } else if (line.equals("go")) {
        goOn();
      }
    }
    System.exit(0);
  }
}
