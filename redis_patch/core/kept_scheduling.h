/* ZeroMQ gives each of its threads the scheduling that the thread has already. A service of systemd may
 * not ask for any (Debian's redis-server is one, by SystemCallFilter=~@resources), and the kernel ends
 * the whole server for it. So ZeroMQ is kept from asking. */

#ifndef SPREDS_KEPT_SCHEDULING_H
#define SPREDS_KEPT_SCHEDULING_H

/* From now on calls of pthread_setschedparam by the libraries of this process whose file names begin so
 * do nothing, and succeed. To be called before they start a thread; nothing where it was already. */
void keep_scheduling(const char *library);

/* They do what they did before. To be called before the code of this file is unloaded. */
void restore_scheduling(void);

#endif
