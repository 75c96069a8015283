/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/mem_events.h"

#include <sys/mman.h>

#include "agent/mem_count.h"
#include "base/time.h"

#define EVENTS_MAX ((uint64_t)1 << 16U)

size_t gsp_agent__mem_events_from = SIZE_MAX;

static struct gsp_agent_memory_event *events;
static uint64_t count; /* all events so far; the newest EVENTS_MAX are kept */

void gsp_agent__mem_event(const void *block, int64_t bytes)
{
    if (events) {
        events[count++ % EVENTS_MAX] =
            (struct gsp_agent_memory_event){gsp_now_ns(), bytes, (uintptr_t)block};
    }
}

uint64_t gsp_agent_memory_events(size_t from_bytes)
{
    gsp_agent__mem_lock();
    if (!events && from_bytes != SIZE_MAX) {
        void *at = mmap(NULL, EVENTS_MAX * sizeof(*events), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        events = at == MAP_FAILED ? NULL : at;
    }
    gsp_agent__mem_events_from = from_bytes;
    const uint64_t now = count;
    gsp_agent__mem_unlock();
    return now;
}

size_t gsp_agent_memory_events_read(uint64_t *at, struct gsp_agent_memory_event *out, size_t room)
{
    size_t n = 0;
    gsp_agent__mem_lock();
    if (count - *at > EVENTS_MAX)
        *at = count - EVENTS_MAX;
    for (; n < room && *at < count; n++, (*at)++)
        out[n] = events[*at % EVENTS_MAX];
    gsp_agent__mem_unlock();
    return n;
}
