/* page.c - see page_private.h. Waits are futexes on the shared state word; a slice of a
 * quarter second bounds what a lost wake-up or a dead slurmstepd can cost. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock_private.h"
#include "page_private.h"

#define SLICE_US 250000

static void futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t wait_us)
{
    struct timespec wait = {.tv_sec = wait_us / 1000000,
                            .tv_nsec = wait_us % 1000000 * 1000};

    syscall(SYS_futex, word, FUTEX_WAIT, value, &wait, NULL, 0);
}

struct gs_page *gs_page_map(uint32_t slot_count)
{
    size_t size =
        sizeof(struct gs_shared) + (size_t)slot_count * sizeof(struct gs_slot);
    struct gs_page *page = calloc(1, sizeof(*page));

    if (!page)
        return NULL;
    page->shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page->shared == MAP_FAILED) {
        free(page);
        return NULL;
    }
    page->slot_count = slot_count;
    page->size = size;
    return page;
}

void gs_page_unmap(struct gs_page *page)
{
    if (!page)
        return;
    munmap(page->shared, page->size);
    free(page);
}

static void settle(struct gs_page *page, enum gs_page_state state)
{
    atomic_store(&page->decided, state);
    atomic_store(&page->shared->state, state);
    syscall(SYS_futex, &page->shared->state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void gs_page_release(struct gs_page *page, const struct gs_go *go)
{
    if (atomic_load(&page->decided) != GS_PAGE_WAIT)
        return;
    page->shared->go = *go;
    settle(page, GS_PAGE_GO);
}

void gs_page_abort(struct gs_page *page, uint8_t code)
{
    if (atomic_load(&page->decided) != GS_PAGE_WAIT)
        return;
    atomic_store(&page->shared->code, code);
    settle(page, GS_PAGE_ABORT);
}

enum gs_page_end gs_page_wait(struct gs_page *page,
                              int parent,
                              const volatile int *signal)
{
    _Atomic uint32_t *word = &page->shared->state;

    for (;;) {
        int64_t now_us = gs_clock_now_us(), guard_us;
        uint32_t state = atomic_load(word);
        switch (state) {
        case GS_PAGE_GO:
            return GS_END_GO;
        case GS_PAGE_ABORT:
            return GS_END_ABORT;
        default:
            break;
        }
        if (*signal)
            return GS_END_SIGNAL;
        if (getppid() != parent)
            return GS_END_ORPHAN;
        guard_us = atomic_load(&page->shared->guard_us);
        if (now_us >= guard_us)
            return GS_END_GUARD;
        /* A state that is none, put there by another task, is waited on as well. */
        futex_wait(
            word, state, guard_us < now_us + SLICE_US ? guard_us - now_us : SLICE_US);
    }
}

bool gs_page_aborted_within(struct gs_page *page, unsigned wait_ms)
{
    _Atomic uint32_t *word = &page->shared->state;
    int64_t until = gs_clock_now_us() + (int64_t)wait_ms * 1000;

    for (;;) {
        int64_t left = until - gs_clock_now_us();
        uint32_t state = atomic_load(word);
        if (state == GS_PAGE_ABORT)
            return true;
        if (left <= 0 || state == GS_PAGE_GO)
            return false;
        futex_wait(word, state, left);
    }
}
