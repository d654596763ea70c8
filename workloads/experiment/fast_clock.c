/* Preloaded into a server: its clocks run FAST_CLOCK times as fast from the start of the process.
 *
 * Redis' LRU clock ticks once in a second. A replay that is faster than life would let whole caches
 * pass within a tick, and turn LRU into random eviction; with this, a minute of load takes a second
 * and its ticks, TTLs and LFU decay all keep their proportion. */

#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double factor = 1;
static struct timespec realtime_start, monotonic_start;

__attribute__((constructor)) static void fast_clock_init(void) {
    const char *text = getenv("FAST_CLOCK");
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &realtime_start);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &monotonic_start);
    if (text) factor = atof(text);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    const struct timespec *start;

    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) start = &realtime_start;
    else if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE) start = &monotonic_start;
    else return result; /* a processor's time stays what it is */
    if (result == 0) {
        double since = (time->tv_sec - start->tv_sec) * 1e9 + (time->tv_nsec - start->tv_nsec);
        long long later = (long long)(since * factor) + start->tv_nsec;
        time->tv_sec = start->tv_sec + later / 1000000000;
        time->tv_nsec = later % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
