package permitflow.reactive;

import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import io.grpc.Channel;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import permitflow.wire.v1.Exchange;
import permitflow.wire.v1.Exchange.FromDownstream;
import permitflow.wire.v1.Exchange.FromUpstream;
import permitflow.wire.v1.Exchange.Marker;
import permitflow.wire.v1.Exchange.Sign;

/** One stream on the wire: messages with checksums, as proto/permitflow/wire/v1/exchange.proto describes them. */
final class Wire {
  static final int PROTOCOL_VERSION = 3;
  /** The largest message of an exchange. */
  static final int MOST_BYTES = 16 << 20;

  private static final int CHECKSUM_BYTES = 9;
  private static final byte KEY = (byte) (FromUpstream.CHECKSUM_FIELD_NUMBER << 3 | 1);
  private static final byte KEY_OF_NONE = (byte) (FromUpstream.NO_CHECKSUM_FIELD_NUMBER << 3 | 1);
  private static final int ALIGNMENT = 64;
  private static final Metadata.Key<byte[]> ERROR =
      Metadata.Key.of("permitflow-error-bin", Metadata.BINARY_BYTE_MARSHALLER);

  private static final MethodDescriptor.Marshaller<byte[]> BYTES =
      new MethodDescriptor.Marshaller<>() {
        @Override
        public InputStream stream(byte[] value) {
          return new ByteArrayInputStream(value);
        }

        @Override
        public byte[] parse(InputStream stream) {
          try {
            return stream.readAllBytes();
          } catch (IOException error) {
            throw new UncheckedIOException(error);
          }
        }
      };

  private final ClientCall<byte[], byte[]> call;
  private boolean makesChecksums = true;
  private long sent;
  private long received;
  private boolean isHalfClosed;

  Wire(Channel grpc, String method) {
    call =
        grpc.newCall(
            MethodDescriptor.<byte[], byte[]>newBuilder(BYTES, BYTES)
                .setType(MethodDescriptor.MethodType.BIDI_STREAMING)
                .setFullMethodName("permitflow.wire.v1.ExchangeService/" + method)
                .build(),
            CallOptions.DEFAULT.withMaxInboundMessageSize(MOST_BYTES));
  }

  void start(ClientCall.Listener<byte[]> listener, MessageLite first) {
    call.start(listener, new Metadata());
    call.request(1);
    send(first);
  }

  /** Ask gRPC for the next message of the peer. */
  void read() {
    call.request(1);
  }

  /** Would gRPC put another message into its queue, and not beyond it? */
  boolean isReady() {
    return call.isReady();
  }

  void send(MessageLite message) {
    if (isHalfClosed) {
      return;
    }
    byte[] made = new byte[message.getSerializedSize() + CHECKSUM_BYTES];
    int end = made.length - CHECKSUM_BYTES;
    ByteBuffer last = ByteBuffer.wrap(made).order(ByteOrder.LITTLE_ENDIAN).position(end);
    message.toByteString().copyTo(made, 0);
    if (makesChecksums) {
      last.put(KEY).putLong(Xxh3.hash(made, end, sent++));
    } else {
      last.put(KEY_OF_NONE).putLong(0);
    }
    call.sendMessage(made);
  }

  /** Nothing more will be sent. */
  void halfClose() {
    if (!isHalfClosed) {
      isHalfClosed = true;
      call.halfClose();
    }
  }

  /** Hang up. */
  void hangUp(String reason) {
    isHalfClosed = true;
    call.cancel(reason, null);
  }

  /** The message without its checksum; a sign is answered, and then null is returned. */
  ByteString check(byte[] message) {
    int end = message.length - CHECKSUM_BYTES;
    byte key = end < 0 ? 0 : message[end];
    if (key == KEY) {
      long stated = ByteBuffer.wrap(message).order(ByteOrder.LITTLE_ENDIAN).getLong(end + 1);
      if (Xxh3.hash(message, end, received) != stated) {
        throw new ChannelException("message " + received + " was altered on its way, or one before it was lost");
      }
      received++;
    } else if (key != KEY_OF_NONE) {
      throw new ChannelException("a message of " + message.length + " bytes carries no checksum");
    }
    makesChecksums = key == KEY;
    return ByteString.copyFrom(message, 0, end);
  }

  void answer(Sign sign, boolean isUpstream) {
    if (sign == Sign.SIGN_ASK) {
      send(
          isUpstream
              ? FromUpstream.newBuilder().setSign(Sign.SIGN_ANSWER).build()
              : FromDownstream.newBuilder().setSign(Sign.SIGN_ANSWER).build());
    }
  }

  /** Chunks as one message, with the body where an Arrow reader needs no copy. */
  static FromUpstream chunks(Iterable<Long> rows, ByteString batch) {
    FromUpstream.Builder message =
        FromUpstream.newBuilder()
            .addFrames(
                Exchange.UpstreamFrame.newBuilder()
                    .setChunks(Exchange.Chunks.newBuilder().addAllRows(rows).setSizeBytes(batch.size())))
            .setBody(batch);
    int past = (message.build().getSerializedSize() - batch.size()) % ALIGNMENT;
    if (past != 0) {
      // The field takes two bytes besides its value, and an empty one is not written.
      int padding = (2 * ALIGNMENT - past - 2) % ALIGNMENT;
      message.setPadding(ByteString.copyFrom(new byte[padding == 0 ? ALIGNMENT : padding]));
    }
    return message.build();
  }

  static Object value(Marker marker) {
    return switch (marker.getValueCase()) {
      case INTEGER -> marker.getInteger();
      case NUMBER -> marker.getNumber();
      case TEXT -> marker.getText();
      case DATA -> marker.getData();
      case VALUE_NOT_SET -> null;
    };
  }

  static Marker marker(Object value) {
    Marker.Builder marker = Marker.newBuilder();
    if (value instanceof Long number) {
      marker.setInteger(number);
    } else if (value instanceof Double number) {
      marker.setNumber(number);
    } else if (value instanceof String text) {
      marker.setText(text);
    } else if (value instanceof ByteString data) {
      marker.setData(data);
    } else if (value != null) {
      throw new IllegalArgumentException(
          "a barrier or watermark of " + value.getClass().getName() + ": use Long, Double, String, ByteString or null");
    }
    return marker.build();
  }

  static ChannelException failure(ByteString error) {
    return new ChannelException("the exchange broke the stream off: " + error.toStringUtf8());
  }

  static ChannelException closed(Status status, Metadata trailers) {
    byte[] error = trailers.get(ERROR);
    String reason = error == null ? status.toString() : new String(error, StandardCharsets.UTF_8);
    return new ChannelException("the stream was closed before its end: " + reason, status.asException(trailers));
  }

  static ChannelException undecodable(InvalidProtocolBufferException error) {
    return new ChannelException("a message is none of this protocol", error);
  }
}
