/* scribble.c - a task that abuses the memory it shares with slurmstepd.
 *
 * Nothing of the plugin's own is used to find it: it is the shared anonymous mapping
 * that came with the fork, as anybody finds it who runs in such a process. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

enum how {
    ONCE,   /* puts a state into its first word that there is not, and goes on */
    RANDOM, /* the rest: over and over, until it is ended */
    ONES,
    ZEROS
};

static volatile uint8_t *find(size_t *ret_size)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    unsigned long from, to;

    *ret_size = 0;
    while (maps && fgets(line, sizeof(line), maps))
        if (strstr(line, " rw-s ") && strstr(line, "/dev/zero")
            && sscanf(line, "%lx-%lx", &from, &to) == 2) {
            fclose(maps);
            *ret_size = to - from;
            return (volatile uint8_t *)from;
        }
    die("no shared memory");
}

static uint8_t next_byte(enum how how, uint32_t *seed)
{
    *seed = *seed * 1664525U + 1013904223U;
    if (how == RANDOM)
        return (uint8_t)(*seed >> 24);
    return how == ONES ? 0xff : 0;
}

void scribble(uint32_t rank, int how)
{
    static const uint8_t no_state[4] = {0xde, 0xad, 0xbe, 0xef};
    size_t size;
    volatile uint8_t *page = find(&size);
    uint32_t seed = (uint32_t)getpid();
    bool told = false;

    for (size_t i = 0; how == ONCE && i < sizeof(no_state); i++)
        page[i] = no_state[i];
    while (how != ONCE) {
        for (size_t i = 0; i < size; i++)
            page[i] = next_byte((enum how)how, &seed);
        if (!told)
            event("scribbled", "\"rank\": %u", rank);
        told = true;
    }
}
