package permitflow.reactive;

import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;
import org.reactivestreams.tck.SubscriberWhiteboxVerification;

/** A channel as a subscriber that tells what it does. */
public class ChannelSubscriberWhiteboxTest extends SubscriberWhiteboxVerification<Message> {
  public ChannelSubscriberWhiteboxTest() {
    super(Tck.ENVIRONMENT);
  }

  @Override
  public Subscriber<Message> createSubscriber(WhiteboxSubscriberProbe<Message> probe) {
    ChannelSubscriber subscriber = Tck.writer(Tck.newChannel());
    return new Subscriber<>() {
      private boolean isSubscribed;

      @Override
      public void onSubscribe(Subscription subscription) {
        subscriber.onSubscribe(subscription);
        if (isSubscribed) {
          return;
        }
        isSubscribed = true;
        probe.registerOnSubscribe(
            new SubscriberPuppet() {
              @Override
              public void triggerRequest(long elements) {
                // It requests by itself.
              }

              @Override
              public void signalCancel() {
                subscription.cancel();
              }
            });
      }

      @Override
      public void onNext(Message element) {
        subscriber.onNext(element);
        probe.registerOnNext(element);
      }

      @Override
      public void onError(Throwable cause) {
        subscriber.onError(cause);
        probe.registerOnError(cause);
      }

      @Override
      public void onComplete() {
        subscriber.onComplete();
        probe.registerOnComplete();
      }
    };
  }

  @Override
  public Message createElement(int element) {
    return Tck.row();
  }
}
