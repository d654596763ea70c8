/* Preloaded into a server: it executes the same instructions in each run, and in each build that does
 * the same. Its clocks stand still; what it takes for random is always the same, the seed of its hash
 * tables among it; its event loop waits for its clients alone, not for timers, and a module's timer
 * runs once; and names are compared byte by byte, for how many instructions the C library needs
 * depends on where in memory they lie. */

#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

#define NOW_SECONDS 1700000000 /* any */

int clock_gettime(clockid_t clock, struct timespec *now) {
    (void)clock;
    *now = (struct timespec){.tv_sec = NOW_SECONDS};
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    *now = (struct timeval){.tv_sec = NOW_SECONDS};
    return 0;
}

time_t time(time_t *now) {
    if (now) *now = NOW_SECONDS;
    return NOW_SECONDS;
}

FILE *fopen(const char *path, const char *mode) {
    FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
    return real(strcmp(path, "/dev/urandom") ? path : "/dev/zero", mode);
}

FILE *fopen64(const char *path, const char *mode) {
    return fopen(path, mode);
}

int epoll_wait(int poll, struct epoll_event *events, int limit, int timeout_ms) {
    return epoll_pwait(poll, events, limit, timeout_ms > 0 ? -1 : timeout_ms, NULL);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *wanted, struct itimerspec *before) {
    int (*real)(int, int, const struct itimerspec *, struct itimerspec *) =
        dlsym(RTLD_NEXT, "timerfd_settime");
    struct itimerspec once = {.it_value = wanted->it_value};
    return real(fd, flags, &once, before);
}

int strcasecmp(const char *a, const char *b) {
    while (*a && tolower((unsigned char)*a) == tolower((unsigned char)*b)) a++, b++;
    return tolower((unsigned char)*a) - tolower((unsigned char)*b);
}
