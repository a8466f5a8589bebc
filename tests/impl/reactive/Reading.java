import io.grpc.ManagedChannelBuilder;
import java.util.concurrent.CountDownLatch;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;
import permitflow.reactive.ChannelPublisher;
import permitflow.reactive.Message;

/** Opens a channel, and requests what is there once a line has come on standard input. */
final class Reading {
  public static void main(String[] arguments) throws Exception {
    var grpc = ManagedChannelBuilder.forTarget(arguments[0]).usePlaintext().build();
    var isOver = new CountDownLatch(1);
    var subscriptions = new Subscription[1];
    new ChannelPublisher(grpc, arguments[1])
        .subscribe(
            new Subscriber<Message>() {
              @Override
              public void onSubscribe(Subscription subscription) {
                subscriptions[0] = subscription;
              }

              @Override
              public void onNext(Message message) {
                System.out.println(message.rows() + " rows");
              }

              @Override
              public void onError(Throwable error) {
                System.out.println(error.getMessage());
                isOver.countDown();
              }

              @Override
              public void onComplete() {
                isOver.countDown();
              }
            });
    System.in.read();
    subscriptions[0].request(Long.MAX_VALUE);
    isOver.await();
    grpc.shutdownNow();
  }
}
