/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/mem_notice.h"

#include <stdatomic.h>
#include <unistd.h>

#include "agent/mem_count.h"
#include "base/time.h"

/* The same limit as in python/gsprof/_stacks.py. It bounds the cost of events. */
#define PAUSE_NS (10 * GSP_NS_PER_MS)

static uint32_t text_id(const struct gsp_memory_head *head, uint32_t at)
{
    const char *strings = (const char *)head + head->strings_off;
    const size_t used = atomic_load_explicit(&head->strings_used, memory_order_acquire);
    return at == 0 ? GSP_NULL_STR
                   : gsp_agent_intern(GSP_TABLE_python_backtrace,
                                      gsp_wire_memory_text(strings, used, at));
}

static void put_rows(const struct gsp_memory_head *head, uint32_t node)
{
    const enum gsp_table_id table = GSP_TABLE_python_backtrace;
    const struct gsp_memory_node *nodes = (const void *)((const char *)head + head->nodes_off);
    const struct gsp_memory_frame *frames = (const void *)((const char *)head + head->frames_off);
    struct gsp_row_python_backtrace row = {
        .ts_ns = gsp_realtime_ns(),
        .mono_ns = gsp_now_ns(),
        .pid = getpid(),
        .rank = GSP_NULL_I64,
        .thread_id = gettid(),
        .frame_type = gsp_agent_intern(table, gsp_sv_of("Python")),
        .trigger = gsp_agent_intern(table, gsp_sv_of("allocation")),
        .locals = {NULL, 0},
    };
    for (; node != 0; node = nodes[node].parent) {
        const struct gsp_memory_frame *frame = &frames[nodes[node].frame];
        if (frame->kind == GSP_MEMORY_THREAD)
            continue;
        row.func = text_id(head, frame->name);
        row.file = text_id(head, frame->file);
        row.lineno = frame->line;
        gsp_ignore(gsp_agent_put(table, &row)); /* the ring counts lost rows */
        row.depth++;
    }
}

static void put_loss(uint64_t count)
{
    const enum gsp_table_id table = GSP_TABLE_gsprof_loss;
    const struct gsp_row_gsprof_loss row = {
        .ts_ns = gsp_realtime_ns(),
        .mono_ns = gsp_now_ns(),
        .pid = getpid(),
        .rank = GSP_NULL_I64,
        .source = gsp_agent_intern(table, gsp_sv_of("python.backtrace")),
        .cause = gsp_agent_intern(table, gsp_sv_of("allocation limit")),
        .count = (int64_t)count,
    };
    gsp_ignore(gsp_agent_put(table, &row)); /* the ring counts lost rows */
}

/* Stacks omitted since the last one that was written, and the process that counts them. */
static _Atomic uint64_t omitted;
static _Atomic pid_t owner;

/* Reports the first omitted stack at once, and the others with the next stack or at the end. */
static void omit(void)
{
    if (atomic_fetch_add_explicit(&omitted, 1, memory_order_relaxed) == 0)
        put_loss(1);
}

void gsp_agent__mem_notice_end(void)
{
    const uint64_t before = atomic_exchange_explicit(&omitted, 0, memory_order_relaxed);
    if (before > 1 && atomic_load_explicit(&owner, memory_order_relaxed) == getpid())
        put_loss(before - 1);
}

void gsp_agent__mem_notice(void)
{
    static _Atomic int64_t next_ns;
    const int64_t now_ns = gsp_now_ns();
    int64_t due_ns = atomic_load_explicit(&next_ns, memory_order_relaxed);
    const struct gsp_memory_head *head = gsp_agent_memory_view();
    if (!head || !gsp_agent_is_on())
        return;
    const pid_t pid = getpid();
    if (atomic_exchange_explicit(&owner, pid, memory_order_relaxed) != pid)
        atomic_store(&omitted, 0); /* a forked child: they belong to the parent */
    if (now_ns < due_ns || !atomic_compare_exchange_strong(&next_ns, &due_ns, now_ns + PAUSE_NS)) {
        omit();
        return;
    }
    gsp_agent__mem_notice_end();
    put_rows(head, gsp_agent__mem_node());
}
