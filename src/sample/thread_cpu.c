/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/thread_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/attr.h"
#include "base/time.h"
#include "proc/task.h"

#define ROWS_MAX 16384U

struct gsp_thread_cpu_row {
    pid_t pid;
    pid_t tid;
    char name[16];
    bool is_python; /* now or at an earlier reading */
    int64_t first_ns;
    int64_t last_ns;
};

static struct gsp_thread_cpu_row *find(const struct gsp_thread_cpu *cpu, pid_t pid, pid_t tid)
{
    for (size_t i = 0; i < cpu->count; i++)
        if (cpu->rows[i].pid == pid && (tid == 0 || cpu->rows[i].tid == tid))
            return &cpu->rows[i];
    return NULL;
}

static struct gsp_thread_cpu_row *add(struct gsp_thread_cpu *cpu, pid_t pid, pid_t tid)
{
    if (cpu->count == ROWS_MAX || !gsp_array_fit(&cpu->rows, &cpu->cap, cpu->count + 1))
        return NULL;
    cpu->rows[cpu->count] = (struct gsp_thread_cpu_row){.pid = pid, .tid = tid};
    return &cpu->rows[cpu->count++];
}

static void update_row(struct gsp_thread_cpu_row *row, bool is_first, bool is_python)
{
    int64_t now_ns = gsp_proc_task_cpu_ns(row->pid, row->tid);
    if (now_ns < row->last_ns)
        return; /* the thread has ended */
    row->last_ns = now_ns;
    if (is_first)
        row->first_ns = now_ns;
    row->is_python = row->is_python || is_python;
    gsp_auto_buf name = {0};
    gsp_proc_task_comm(row->pid, row->tid, &name);
    if (name.len > 0)
        snprintf(row->name, sizeof(row->name), "%.*s", (int)name.len, name.p);
}

void gsp_sample__thread_cpu_update(struct gsp_thread_cpu *cpu, pid_t pid,
                                   bool (*is_python)(const void *user, pid_t tid), const void *user)
{
    struct gsp_task *tasks;
    size_t count;
    if (gsp_proc_tasks(pid, &tasks, &count, NULL) != GSP_OK)
        return;
    bool is_first = find(cpu, pid, 0) == NULL;
    for (size_t i = 0; i < count; i++) {
        struct gsp_thread_cpu_row *row = find(cpu, pid, tasks[i].tid);
        if (!row)
            row = add(cpu, pid, tasks[i].tid);
        if (row)
            update_row(row, is_first, is_python(user, tasks[i].tid));
    }
    free(tasks);
}

static int by_cpu(const void *a, const void *b)
{
    const struct gsp_named_cpu *x = a;
    const struct gsp_named_cpu *y = b;
    return x->cpu_ns == y->cpu_ns ? strcmp(x->name, y->name) : x->cpu_ns < y->cpu_ns ? 1 : -1;
}

void gsp_sample__thread_cpu_sum(const struct gsp_thread_cpu *cpu, struct gsp_native_cpu *out)
{
    *out = (struct gsp_native_cpu){0};
    struct gsp_named_cpu *names = calloc(cpu->count + 1, sizeof(*names));
    size_t count = 0;
    for (size_t i = 0; names && i < cpu->count; i++) {
        const struct gsp_thread_cpu_row *row = &cpu->rows[i];
        int64_t used_ns = row->last_ns - row->first_ns;
        if (row->is_python || used_ns < GSP_NS_PER_MS)
            continue;
        size_t k = 0;
        while (k < count && strcmp(names[k].name, row->name) != 0)
            k++;
        if (k == count)
            memcpy(names[count++].name, row->name, sizeof(row->name));
        names[k].threads++;
        names[k].cpu_ns += used_ns;
        out->threads++;
        out->cpu_ns += used_ns;
    }
    if (count > 0)
        qsort(names, count, sizeof(*names), by_cpu);
    while (out->top_count < GSP_COUNT(out->top) && out->top_count < count) {
        out->top[out->top_count] = names[out->top_count];
        out->top_count++;
    }
    free(names);
}

void gsp_sample__thread_cpu_free(struct gsp_thread_cpu *cpu)
{
    free(cpu->rows);
    *cpu = (struct gsp_thread_cpu){0};
}

static void put_seconds(int64_t ns, struct gsp_buf *out)
{
    double s = (double)ns / (double)GSP_NS_PER_S;
    gsp_buf_printf(out, s < 0.1 ? "%.3f s" : s < 10 ? "%.2f s" : "%.1f s", s);
}

void gsp_sample_native_cpu_put(const struct gsp_native_cpu *sum, struct gsp_buf *out)
{
    size_t shown = 0;
    put_seconds(sum->cpu_ns, out);
    gsp_buf_puts(out, " of CPU: ");
    for (size_t i = 0; i < sum->top_count; i++) {
        const struct gsp_named_cpu *at = &sum->top[i];
        gsp_buf_printf(out, "%s%s ", i ? ", " : "", at->name[0] ? at->name : "(no name)");
        if (at->threads > 1)
            gsp_buf_printf(out, "(%zu threads) ", at->threads);
        put_seconds(at->cpu_ns, out);
        shown += at->threads;
    }
    if (shown < sum->threads)
        gsp_buf_printf(out, ", %zu more", sum->threads - shown);
}
