/* lock.h - one gangstart-probe per node at a time. */
#ifndef GS_PROBE_LOCK_H
#define GS_PROBE_LOCK_H

#define GS_PROBE_LOCK "/run/gangstart/probe.lock"

/* Takes the lock, held until the program ends. Another holder is waited for, 5 s at
 * most, half of that while it is in D state, which nothing can end. Returns 0, or an
 * exit code after having complained. */
int gs_probe_lock(const char *path);

#endif
