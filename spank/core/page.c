/* page.c - see page_private.h. Waits are futexes on the shared state word; a slice of a
 * quarter second bounds what a lost wake-up or a dead slurmstepd can cost. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
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
    size_t size = sizeof(struct gs_page) + (size_t)slot_count * sizeof(struct gs_slot);
    struct gs_page *page =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return NULL;
    page->slot_count = slot_count;
    page->size = size;
    return page;
}

void gs_page_unmap(struct gs_page *page)
{
    if (page)
        munmap(page, page->size);
}

static void settle(struct gs_page *page, enum gs_page_state state)
{
    atomic_store(&page->state, state);
    syscall(SYS_futex, &page->state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void gs_page_release(struct gs_page *page, const struct gs_go *go)
{
    if (atomic_load(&page->state) != GS_PAGE_WAIT)
        return;
    page->go = *go;
    settle(page, GS_PAGE_GO);
}

void gs_page_abort(struct gs_page *page, uint8_t code)
{
    if (atomic_load(&page->state) != GS_PAGE_WAIT)
        return;
    atomic_store(&page->code, code);
    settle(page, GS_PAGE_ABORT);
}

enum gs_page_end gs_page_wait(struct gs_page *page,
                              int parent,
                              const volatile int *signal)
{
    for (;;) {
        int64_t left = atomic_load(&page->guard_us) - gs_clock_now_us();
        switch (atomic_load(&page->state)) {
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
        if (left <= 0)
            return GS_END_GUARD;
        futex_wait(&page->state, GS_PAGE_WAIT, left < SLICE_US ? left : SLICE_US);
    }
}

bool gs_page_aborted_within(struct gs_page *page, unsigned wait_ms)
{
    int64_t until = gs_clock_now_us() + (int64_t)wait_ms * 1000;

    for (;;) {
        int64_t left = until - gs_clock_now_us();
        if (atomic_load(&page->state) == GS_PAGE_ABORT)
            return true;
        if (left <= 0 || atomic_load(&page->state) == GS_PAGE_GO)
            return false;
        futex_wait(&page->state, GS_PAGE_WAIT, left);
    }
}
