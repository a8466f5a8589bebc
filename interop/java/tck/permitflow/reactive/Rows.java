package permitflow.reactive;

import java.util.concurrent.atomic.AtomicLong;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;

/** Publishes the same row, so many times, within the calls of {@code request}. */
final class Rows implements Publisher<Message> {
  private final long count;

  Rows(long count) {
    this.count = count;
  }

  @Override
  public void subscribe(Subscriber<? super Message> subscriber) {
    AtomicLong requested = new AtomicLong();
    subscriber.onSubscribe(
        new Subscription() {
          private long left = count;
          private boolean isOver;

          @Override
          public void request(long n) {
            if (requested.getAndAdd(n) != 0) {
              return; // the call that is emitting goes on
            }
            do {
              if (left > 0 && !isOver) {
                left--;
                subscriber.onNext(Tck.row());
              }
            } while (requested.decrementAndGet() > 0);
            if (left == 0 && !isOver) {
              isOver = true;
              subscriber.onComplete();
            }
          }

          @Override
          public void cancel() {
            isOver = true;
          }
        });
  }
}
