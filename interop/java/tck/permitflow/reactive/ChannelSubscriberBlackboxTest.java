package permitflow.reactive;

import org.reactivestreams.Subscriber;
import org.reactivestreams.tck.SubscriberBlackboxVerification;

/** A channel as a subscriber, from outside. */
public class ChannelSubscriberBlackboxTest extends SubscriberBlackboxVerification<Message> {
  public ChannelSubscriberBlackboxTest() {
    super(Tck.ENVIRONMENT);
  }

  @Override
  public Subscriber<Message> createSubscriber() {
    return Tck.writer(Tck.newChannel());
  }

  @Override
  public Message createElement(int element) {
    return Tck.row();
  }
}
