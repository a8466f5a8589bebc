package permitflow.reactive;

import org.reactivestreams.Publisher;
import org.reactivestreams.tck.PublisherVerification;

/** A channel with permits as a publisher: rows may wait here for requests. */
public class ChannelPublisherTest extends PublisherVerification<Message> {
  public ChannelPublisherTest() {
    super(Tck.ENVIRONMENT, 200);
  }

  @Override
  public Publisher<Message> createPublisher(long elements) {
    return Tck.published(elements, System.getProperty("permitflow.flow"));
  }

  @Override
  public Publisher<Message> createFailedPublisher() {
    return Tck.unknown();
  }
}
