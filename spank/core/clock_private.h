/* clock_private.h - the two clocks, in microseconds. */
#ifndef GS_CLOCK_PRIVATE_H
#define GS_CLOCK_PRIVATE_H

#include <stdint.h>

/* CLOCK_MONOTONIC: for every wait and every difference. */
int64_t gs_clock_now_us(void);
/* CLOCK_REALTIME, since the epoch: for reports only. */
int64_t gs_clock_wall_us(void);

/* Wall clock at boot, as the kernel log's times count from there. */
int64_t gs_clock_boot_us(void);

#endif
