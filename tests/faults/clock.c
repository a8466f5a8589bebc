/* A wall clock that jumps: preloaded into a process, it adds an offset that the process's starter changes.
 *
 * Monotonic clocks are the true ones, as on a machine whose time is set.  Waits until a time of the wall clock are asked
 * of the kernel in its own time; one that has begun before a jump ends when it would have without.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t none = 0;
static const volatile int64_t *ahead_seconds = &none;

/* Older than any monotonic clock, younger than any deadline of a wall clock: some 30 years. */
#define LEAST_WALL_SECONDS 1000000000

/* From now on the wall clock is as many seconds ahead as the file says in its eight bytes; 0: well. */
int permitflow_obey_clock(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    void *found = file < 0 ? MAP_FAILED : mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    if (found == MAP_FAILED) return 1;
    ahead_seconds = found;
    return 0;
}

static struct timespec truly(const struct timespec *until) {
    struct timespec found = *until;
    if (found.tv_sec > LEAST_WALL_SECONDS) found.tv_sec -= *ahead_seconds;
    return found;
}

static void *next(const char *name) {
    /* The plain name may be that of an older kind of condition. */
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return found ? found : dlsym(RTLD_NEXT, name);
}

/* Without a static variable that needs a lock: who is first twice finds the same. */
#define NEXT(type, name) static type real; if (!real) real = (type)next(name)

int clock_gettime(clockid_t clock, struct timespec *now) {
    typedef int (*ask)(clockid_t, struct timespec *);
    NEXT(ask, "clock_gettime");
    int result = real(clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead_seconds;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    typedef int (*ask)(struct timeval *, void *);
    NEXT(ask, "gettimeofday");
    int result = real(now, zone);
    if (!result) now->tv_sec += *ahead_seconds;
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    typedef int (*ask)(sem_t *, const struct timespec *);
    NEXT(ask, "sem_timedwait");
    struct timespec true_until = truly(until);
    return real(semaphore, &true_until);
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    typedef int (*ask)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    NEXT(ask, "pthread_cond_timedwait");
    struct timespec true_until = truly(until);
    return real(cond, mutex, &true_until);
}

/* gRPC waits by this. */
long syscall(long number, ...) {
    typedef long (*ask)(long, ...);
    NEXT(ask, "syscall");
    __builtin_va_list arguments;
    __builtin_va_start(arguments, number);
    long of[6];
    for (int place = 0; place < 6; place++) of[place] = __builtin_va_arg(arguments, long);
    __builtin_va_end(arguments);
    struct timespec true_until;
    if (number == SYS_futex && (of[1] & FUTEX_CLOCK_REALTIME) && of[3]) {
        true_until = truly((const struct timespec *)of[3]);
        of[3] = (long)&true_until;
    }
    return real(number, of[0], of[1], of[2], of[3], of[4], of[5]);
}
