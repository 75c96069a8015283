/* SPDX-License-Identifier: Apache-2.0 */
#include "record/memory_poll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "collect/huge.h"
#include "proc/task.h"
#include "record/launch.h"
#include "ring/dir.h"
#include "ring/process.h"
#include "ring/reader.h"
#include "sample/tree.h"
#include "wire/table.h"

int64_t gsp_record_process_rss(pid_t pid)
{
    char path[64];
    gsp_auto_buf text = {0};
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    if (gsp_file_read(path, 4096, &text, NULL) < 0 || !gsp_buf_cstr(&text))
        return GSP_MEMLOG_UNKNOWN;
    const char *blank = strchr(text.p, ' ');
    char *end = NULL;
    const unsigned long long pages = blank ? strtoull(blank, &end, 10) : 0;
    if (!blank || end == blank)
        return GSP_MEMLOG_UNKNOWN;
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

/* Returns the newest training step in the rings of the process: the maximum of the last rows of all
 * lanes. */
static int64_t newest_step(int folder_fd)
{
    struct gsp_ring_view *view = NULL;
    struct gsp_ring_range spans[GSP_RING_LANES_MAX];
    int64_t newest = GSP_MEMLOG_UNKNOWN;
    if (gsp_ring_open_newest(folder_fd, "python", "torch_step", &view, NULL) < 0)
        return newest;
    const struct gsp_ring_info *info = gsp_ring_info(view);
    uint32_t column = 0;
    while (column < info->column_count && strcmp(info->columns[column].name, "step") != 0)
        column++;
    const bool is_known = column < info->column_count && info->columns[column].type == GSP_I64;
    const size_t count = is_known ? gsp_ring_ranges(view, spans, GSP_RING_LANES_MAX, NULL) : 0;
    for (size_t i = 0; i < count; i++) {
        int64_t step = GSP_NULL_I64;
        if (spans[i].to == spans[i].from)
            continue;
        gsp_ring_copy(view, spans[i].lane, column, spans[i].to - 1, 1, &step);
        if (step != GSP_NULL_I64 && step > newest)
            newest = step;
    }
    gsp_ring_view_close(view);
    return newest;
}

static bool is_running(const struct gsp_memory_poll_process *process)
{
    uint64_t ticks = 0;
    char state = 0;
    return gsp_ring_process_start_time(process->pid, &ticks, &state) &&
           ticks == process->start_time && state != 'Z' && state != 'X';
}

/* -------------------------------------------------------------------------------- new processes */

static int begin_process(struct gsp_memory_poll *poll, struct gsp_memory_poll_process *process,
                         struct gsp_err *err)
{
    gsp_auto_buf cmdline = {0};
    struct gsp_procinfo info = {.ppid = -1};
    poll->taken++;
    process->is_fresh = true;
    if (!poll->writer)
        return GSP_OK;
    gsp_proc_cmdline(process->pid, &cmdline);
    if (gsp_proc_info(process->pid, &info, NULL) < 0)
        info.ppid = -1;
    const struct gsp_memlog_writer_process spec = {
        .pid = process->pid, .ppid = info.ppid, .cmdline = gsp_buf_sv(&cmdline)};
    return gsp_memlog_writer_add_process(poll->writer, &spec, process->table, &process->index, err);
}

/* Opens the counters of a process, if they exist. */
static int open_table(struct gsp_memory_poll *poll, struct gsp_memory_poll_process *process,
                      struct gsp_err *err)
{
    struct gsp_err why = {0};
    struct gsp_memlog_table *table = NULL;
    int rc = gsp_memlog_table_open(process->folder_fd, &table, &why);
    if (rc == GSP_OK && poll->claims && !gsp_memlog_table_claim(table)) {
        poll->is_claimed = true;
        rc = gsp_err_set(&why, GSP_E_EXISTS, 0, "process %d is being recorded already",
                         (int)process->pid);
    }
    if (rc == GSP_OK)
        rc = gsp_memlog_table_copy(table, &why);
    if (rc < 0) {
        gsp_memlog_table_close(table);
        if (rc != GSP_E_NOFILE)
            poll->err = why;
        return GSP_OK;
    }
    process->table = table;
    return begin_process(poll, process, err);
}

static struct gsp_memory_poll_process *find(const struct gsp_memory_poll *poll, pid_t pid,
                                            uint64_t start)
{
    for (size_t i = 0; i < poll->count; i++)
        if (poll->at[i].pid == pid && poll->at[i].start_time == start)
            return &poll->at[i];
    return NULL;
}

/* Adds a process if it has a ring directory. */
static int add_process(struct gsp_memory_poll *poll, pid_t pid, struct gsp_err *err)
{
    struct gsp_ring_dir_pair dirs;
    uint64_t ticks = 0;
    char state = 0;
    if (gsp_ring_process_start_time(pid, &ticks, &state) && find(poll, pid, ticks))
        return GSP_OK;
    if (gsp_ring_dir_find_pair(pid, gsp_record_launch_user(), &dirs, NULL) < 0)
        return GSP_OK;
    const struct gsp_ring_dir *dir = &dirs.at[0];
    if (find(poll, pid, dir->start_time) || (!dir->live && poll->claims && pid != poll->pid))
        return GSP_OK;
    if (!gsp_array_fit(&poll->at, &poll->capacity, poll->count + 1))
        return gsp_err_nomem(err);
    struct gsp_memory_poll_process *process = &poll->at[poll->count];
    *process = (struct gsp_memory_poll_process){
        .pid = pid, .start_time = dir->start_time, .folder_fd = -1};
    if (gsp_ring_dir_open(dir, &process->folder_fd, &poll->err) < 0)
        return GSP_OK;
    poll->count++;
    return GSP_OK;
}

static int add_processes(struct gsp_memory_poll *poll, struct gsp_err *err)
{
    pid_t *pids = NULL;
    size_t count = 0;
    int rc = add_process(poll, poll->pid, err);
    if (!poll->subprocesses || gsp_sample_tree_pids(poll->pid, &pids, &count, NULL) < 0)
        return rc;
    for (size_t i = 0; rc == GSP_OK && i < count; i++)
        rc = add_process(poll, pids[i], err);
    free(pids);
    return rc;
}

/* ------------------------------------------------------------------------------------- polling */

static void end_process(struct gsp_memory_poll *poll, struct gsp_memory_poll_process *process,
                        int64_t now_ns)
{
    if (process->table && poll->writer)
        gsp_memlog_writer_end_process(poll->writer, process->index, now_ns);
    gsp_memlog_table_close(process->table);
    process->table = NULL;
}

/* Reading this is expensive: done only in the last pass, and when resident memory has grown by a
 * quarter, so that the value at a peak is recent. */
static int64_t huge_bytes(const struct gsp_memory_poll *poll,
                          struct gsp_memory_poll_process *process, int64_t rss_bytes)
{
    const int64_t before = process->huge_rss_bytes;
    if (poll->reads_huge && rss_bytes > 0 && (poll->is_last || rss_bytes >= before + before / 4)) {
        const int64_t bytes = gsp_collect_huge_bytes(process->pid);
        process->huge_bytes = bytes < 0 ? GSP_MEMLOG_UNKNOWN : bytes;
        process->huge_rss_bytes = rss_bytes;
    }
    return process->huge_rss_bytes ? process->huge_bytes : GSP_MEMLOG_UNKNOWN;
}

static int put_tick(struct gsp_memory_poll *poll, struct gsp_memory_poll_process *process,
                    int64_t now_ns, struct gsp_err *err)
{
    int64_t totals[GSP_MEMTOTALS];
    if (!poll->writer)
        return GSP_OK;
    for (size_t i = 0; i < GSP_MEMTOTALS; i++)
        totals[i] = GSP_MEMLOG_UNKNOWN;
    totals[GSP_MEMTOTAL_RSS] = gsp_record_process_rss(process->pid);
    totals[GSP_MEMTOTAL_HUGE] = huge_bytes(poll, process, totals[GSP_MEMTOTAL_RSS]);
    totals[GSP_MEMTOTAL_STEP] = newest_step(process->folder_fd);
    return gsp_memlog_writer_tick(poll->writer, process->index, now_ns, process->table, totals,
                                  err);
}

static int read_counters(struct gsp_memory_poll *poll, struct gsp_memory_poll_process *process,
                         int64_t now_ns, struct gsp_err *err)
{
    /* Checked before the counters are read: if it has exited, they are final. */
    const bool runs = is_running(process);
    int rc = GSP_OK;
    process->is_fresh = false;
    if (!process->table)
        rc = open_table(poll, process, err);
    if (rc == GSP_OK && process->table && gsp_memlog_table_copy(process->table, &poll->err) < 0)
        end_process(poll, process, now_ns);
    if (rc == GSP_OK && process->table) {
        poll->live++;
        rc = put_tick(poll, process, now_ns, err);
        if (rc == GSP_OK &&
            (!runs || gsp_memlog_table_is_replaced(process->table, process->folder_fd)))
            end_process(poll, process, now_ns);
    }
    process->over = !runs;
    return rc;
}

int gsp_record_memory_poll_read(struct gsp_memory_poll *poll, int64_t now_ns, struct gsp_err *err)
{
    int rc = add_processes(poll, err);
    poll->live = 0;
    for (size_t i = 0; rc == GSP_OK && i < poll->count; i++)
        if (!poll->at[i].over)
            rc = read_counters(poll, &poll->at[i], now_ns, err);
    return rc;
}

void gsp_record_memory_poll_free(struct gsp_memory_poll *poll)
{
    for (size_t i = 0; i < poll->count; i++) {
        gsp_memlog_table_close(poll->at[i].table);
        gsp_fd_close(&poll->at[i].folder_fd);
    }
    free(poll->at);
    *poll = (struct gsp_memory_poll){0};
}
