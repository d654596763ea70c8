/* Preloaded into a server: its clocks stand still until the replay moves them, by writing how many
 * microseconds have passed since the start into the file that FAST_CLOCK names.
 *
 * Redis' LRU clock ticks once in a second. A replay that is faster than life would let whole caches
 * pass within a tick, and turn LRU into random eviction. With this, time passes as the load says,
 * however fast or slow the machine is: ticks, TTLs and LFU decay keep their proportion exactly. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *passed_us;
static struct timespec realtime_start, monotonic_start;

/* Other libraries look at the clock while they start: whoever comes first, and that is long before
 * there are threads, opens the file. */
static void fast_clock_open(void) {
    const char *path = getenv("FAST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = file < 0 ? MAP_FAILED
                          : mmap(NULL, sizeof(*passed_us), PROT_READ, MAP_SHARED, file, 0);

    if (page == MAP_FAILED) _exit(1); /* a clock that runs by itself would spoil the results */
    close(file);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* while time stands still, it would not see SIGTERM */
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &realtime_start);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &monotonic_start);
    passed_us = page;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    const struct timespec *start;

    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) start = &realtime_start;
    else if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE) start = &monotonic_start;
    else return syscall(SYS_clock_gettime, clock, time); /* a processor's time stays what it is */
    if (!passed_us) fast_clock_open();
    long long us = *passed_us;
    long long ns = start->tv_nsec + us % 1000000 * 1000;
    time->tv_sec = start->tv_sec + us / 1000000 + ns / 1000000000;
    time->tv_nsec = ns % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
