/* clock.c - see clock_private.h. */
#include <time.h>

#include "clock_private.h"

static int64_t read_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t gs_clock_now_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

int64_t gs_clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

int64_t gs_clock_boot_us(void)
{
    return read_us(CLOCK_REALTIME) - read_us(CLOCK_BOOTTIME);
}
