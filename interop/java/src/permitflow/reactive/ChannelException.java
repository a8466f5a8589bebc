package permitflow.reactive;

/** A stream of a channel has failed: the exchange refused it, it was given up, or an end broke the rules. */
public final class ChannelException extends RuntimeException {
  private static final long serialVersionUID = 1;

  ChannelException(String message) {
    super(message);
  }

  ChannelException(String message, Throwable cause) {
    super(message, cause);
  }
}
