/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watched processes. Their files stay open: a descriptor always belongs to one process, so a reused
 * pid cannot be mistaken for the original process.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "collect/source.h"

#define PIDS_MAX      4096U
/* Each needs a descriptor. */
#define THREADS_MAX   1024U
/* smaps_rollup takes milliseconds. */
#define PSS_NS        GSP_NS_PER_S
/* The list of threads can change without a change of its length. */
#define THREADS_NS    GSP_NS_PER_S
/* A thread that has used less CPU time than this since its last row gets no row. */
#define THREAD_CPU_NS GSP_NS_PER_MS
#define ENVIRON_MAX   (4U << 20)

struct thread {
    int32_t tid;
    int fd; /* schedstat */
    struct gsp_schedstat sched;
    uint64_t row_cpu_ns; /* CPU time at its last row */
    bool listed;
};

struct watched {
    int32_t pid;
    bool gone;
    bool has_clock;
    bool is_watched; /* by the last call of watch() */
    clockid_t clock;
    int stat_fd;
    int io_fd;
    int smaps_fd;
    int64_t rank;
    char name[64]; /* at the last read */
    int64_t last_mono_ns;
    uint64_t last_cpu_ns;
    struct thread *threads;
    size_t thread_count;
    size_t thread_cap;
    bool threads_known;
    int64_t next_threads_ns;
    uint64_t retired; /* time slices of threads that have exited */
    int64_t next_pss_ns;
    int64_t pss_bytes;
    int64_t swap_bytes;
};

struct process_collector {
    struct gsp_collect_env env;
    struct gsp_row_process_metrics blank;
    struct gsp_row_process_thread blank_thread;
    struct watched *watched;
    size_t count;
    double ticks_per_s;
    uint64_t page_bytes;
    bool is_live; /* the root is that of this machine: CPU clocks of processes are available */
    struct gsp_buf text;
    struct gsp_collect_trouble trouble;
};

static void close_threads(struct watched *w)
{
    for (size_t i = 0; i < w->thread_count; i++)
        gsp_fd_close(&w->threads[i].fd);
    free(w->threads);
    w->threads = NULL;
    w->thread_count = 0;
    w->thread_cap = 0;
}

static void close_watched(struct watched *w)
{
    close_threads(w);
    gsp_fd_close(&w->stat_fd);
    gsp_fd_close(&w->io_fd);
    gsp_fd_close(&w->smaps_fd);
    w->stat_fd = -1;
    w->io_fd = -1;
    w->smaps_fd = -1;
}

static void close_process(void *collector)
{
    struct process_collector *self = collector;
    if (!self)
        return;
    for (size_t i = 0; i < self->count; i++)
        close_watched(&self->watched[i]);
    free(self->watched);
    gsp_buf_free(&self->text);
    free(self);
}

static int open_process(const struct gsp_collect_env *env, void **out, struct gsp_err *err)
{
    *out = NULL;
    struct process_collector *self = calloc(1, sizeof(*self));
    if (!self)
        return gsp_err_nomem(err);
    const long ticks = sysconf(_SC_CLK_TCK);
    const long page = sysconf(_SC_PAGESIZE);
    self->env = *env;
    self->ticks_per_s = ticks > 0 ? (double)ticks : 100;
    self->page_bytes = page > 0 ? (uint64_t)page : 4096;
    self->is_live = strcmp(env->proc_root, "/proc") == 0;
    gsp_collect__blank(GSP_TABLE_process_metrics, &self->blank);
    gsp_collect__blank(GSP_TABLE_process_thread, &self->blank_thread);
    *out = self;
    return 0;
}

/* The rank in a distributed job, from the variables that launchers set. */
static int64_t rank_of(const struct process_collector *self, int32_t pid)
{
    static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    gsp_auto_buf text = {0};
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%d/environ", self->env.proc_root, (int)pid);
    if (gsp_file_read(path, ENVIRON_MAX, &text, NULL) != 0)
        return GSP_NULL_I64;
    for (size_t i = 0; i < GSP_COUNT(names); i++) {
        uint64_t rank = 0;
        if (gsp_collect__parse_env(gsp_buf_sv(&text), names[i], &rank))
            return gsp_collect__i64(rank);
    }
    return GSP_NULL_I64;
}

static void open_watched(const struct process_collector *self, struct watched *w, int32_t pid)
{
    const char *root = self->env.proc_root;
    *w = (struct watched){.pid = pid,
                          .rank = rank_of(self, pid),
                          .smaps_fd = -1,
                          .last_cpu_ns = GSP_UNKNOWN,
                          .pss_bytes = GSP_NULL_I64,
                          .swap_bytes = GSP_NULL_I64};
    w->stat_fd = gsp_collect__open("%s/%d/stat", root, (int)pid);
    w->io_fd = gsp_collect__open("%s/%d/io", root, (int)pid);
    if (self->env.pss)
        w->smaps_fd = gsp_collect__open("%s/%d/smaps_rollup", root, (int)pid);
    w->gone = w->stat_fd < 0;
    w->has_clock = self->is_live && clock_getcpuclockid(pid, &w->clock) == 0;
}

static struct watched *find_watched(struct process_collector *self, int32_t pid)
{
    for (size_t i = 0; i < self->count; i++)
        if (self->watched[i].pid == pid)
            return &self->watched[i];
    return NULL;
}

/* Processes that are already watched continue. The pid of one that has exited may belong to a
 * new process. */
static void watch(void *collector, const int32_t *pids, size_t count)
{
    struct process_collector *self = collector;
    count = count < PIDS_MAX ? count : PIDS_MAX;
    struct watched *next = calloc(count ? count : 1, sizeof(*next));
    if (!next)
        return;
    size_t n = 0;
    for (size_t i = 0; i < self->count; i++)
        self->watched[i].is_watched = false;
    for (size_t i = 0; i < count; i++) {
        struct watched *old = find_watched(self, pids[i]);
        bool twice = false;
        for (size_t j = 0; j < n && !twice; j++)
            twice = next[j].pid == pids[i];
        if (twice || pids[i] <= 0)
            continue;
        if (old && !old->gone) {
            old->is_watched = true;
            next[n++] = *old;
        } else {
            open_watched(self, &next[n++], pids[i]);
        }
    }
    for (size_t i = 0; i < self->count; i++)
        if (!self->watched[i].is_watched)
            close_watched(&self->watched[i]);
    free(self->watched);
    self->watched = next;
    self->count = n;
}

static struct thread *find_thread(struct watched *w, int32_t tid)
{
    for (size_t i = 0; i < w->thread_count; i++)
        if (w->threads[i].tid == tid)
            return &w->threads[i];
    return NULL;
}

static bool add_thread(const struct process_collector *self, struct watched *w, int32_t tid)
{
    struct thread *thread = find_thread(w, tid);
    if (thread) {
        thread->listed = true;
        return true;
    }
    if (w->thread_count == THREADS_MAX ||
        !gsp_array_fit(&w->threads, &w->thread_cap, w->thread_count + 1))
        return false;
    const int fd =
        gsp_collect__open("%s/%d/task/%d/schedstat", self->env.proc_root, (int)w->pid, (int)tid);
    if (fd < 0)
        return errno == ENOENT; /* the thread has exited meanwhile */
    w->threads[w->thread_count++] = (struct thread){.tid = tid, .fd = fd, .listed = true};
    return true;
}

/* The name of a thread; NULL if it has exited. */
static uint32_t name_of(struct process_collector *self, const struct watched *w, int32_t tid,
                        struct gsp_collect_sink *sink)
{
    char name[64];
    if (!gsp_collect__read_line(name, sizeof(name), "%s/%d/task/%d/comm", self->env.proc_root,
                                (int)w->pid, (int)tid))
        return GSP_NULL_STR;
    return sink->intern(sink, GSP_TABLE_process_thread, gsp_sv_of(name));
}

static void put_thread(struct process_collector *self, const struct watched *w,
                       struct thread *thread, const struct gsp_collect_tick *tick,
                       struct gsp_collect_sink *sink)
{
    if (thread->sched.cpu_ns < thread->row_cpu_ns + THREAD_CPU_NS)
        return;
    struct gsp_row_process_thread row = self->blank_thread;
    row.ts_ns = tick->ts_ns;
    row.mono_ns = tick->mono_ns;
    row.pid = w->pid;
    row.rank = w->rank;
    row.thread_id = thread->tid;
    row.thread_name = name_of(self, w, thread->tid, sink);
    row.cpu_s = (double)thread->sched.cpu_ns / (double)GSP_NS_PER_S;
    row.wait_s = (double)thread->sched.wait_ns / (double)GSP_NS_PER_S;
    thread->row_cpu_ns = thread->sched.cpu_ns;
    sink->row(sink, GSP_TABLE_process_thread, &row);
}

static void put_threads(struct process_collector *self, const struct watched *w,
                        const struct gsp_collect_tick *tick, struct gsp_collect_sink *sink)
{
    for (size_t i = 0; i < w->thread_count; i++)
        put_thread(self, w, &w->threads[i], tick, sink);
}

static void retire_unlisted(struct process_collector *self, struct watched *w,
                            const struct gsp_collect_tick *tick, struct gsp_collect_sink *sink)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->thread_count; i++) {
        if (w->threads[i].listed) {
            w->threads[kept++] = w->threads[i];
        } else {
            put_thread(self, w, &w->threads[i], tick, sink);
            w->retired += w->threads[i].sched.slices;
            gsp_fd_close(&w->threads[i].fd);
        }
    }
    w->thread_count = kept;
}

/* Returns false if there are too many threads, or they cannot be listed. */
static bool list_threads(struct process_collector *self, struct watched *w,
                         const struct gsp_collect_tick *tick, struct gsp_collect_sink *sink)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%d/task", self->env.proc_root, (int)w->pid);
    DIR *folder = opendir(path);
    if (!folder)
        return false;
    bool all = true;
    for (size_t i = 0; i < w->thread_count; i++)
        w->threads[i].listed = false;
    for (const struct dirent *e = readdir(folder); e && all; e = readdir(folder)) {
        int64_t tid = 0;
        if (e->d_name[0] != '.' && gsp_parse_i64(e->d_name, 1, INT_MAX, &tid, NULL) == 0)
            all = add_thread(self, w, (int32_t)tid);
    }
    closedir(folder);
    if (all)
        retire_unlisted(self, w, tick, sink);
    else
        close_threads(w);
    return all;
}

/* The number of times its threads were put on a CPU. The kernel reports these context switches
 * per thread. */
static int64_t ctx_switches(struct process_collector *self, struct watched *w, uint64_t threads,
                            const struct gsp_collect_tick *tick, struct gsp_collect_sink *sink)
{
    const bool is_due = tick->mono_ns >= w->next_threads_ns;
    if (is_due || (w->threads_known && threads != w->thread_count)) {
        w->next_threads_ns = tick->mono_ns + THREADS_NS;
        w->threads_known = list_threads(self, w, tick, sink);
    }
    if (!w->threads_known) {
        gsp_collect__trouble_add(&self->trouble,
                                 "process %d: context switches of %llu threads are not counted",
                                 (int)w->pid, (unsigned long long)threads);
        return GSP_NULL_I64;
    }
    uint64_t sum = w->retired;
    for (size_t i = 0; i < w->thread_count; i++) {
        struct thread *thread = &w->threads[i];
        char text[96];
        struct gsp_schedstat sched;
        const ssize_t n = pread(thread->fd, text, sizeof(text), 0);
        if (n > 0 && gsp_collect__parse_schedstat((struct gsp_sv){text, (size_t)n}, &sched))
            thread->sched = sched;
        else
            w->next_threads_ns = 0; /* it has exited: list the threads again at the next tick */
        sum += thread->sched.slices;
    }
    if (is_due)
        put_threads(self, w, tick, sink);
    return gsp_collect__i64(sum);
}

/* CPU time since the start, from the most precise source available. */
static uint64_t cpu_ns(const struct process_collector *self, const struct watched *w,
                       const struct gsp_pid_stat *stat)
{
    struct timespec t;
    if (w->has_clock && clock_gettime(w->clock, &t) == 0)
        return (uint64_t)t.tv_sec * (uint64_t)GSP_NS_PER_S + (uint64_t)t.tv_nsec;
    return (uint64_t)((double)(stat->user_ticks + stat->system_ticks) / self->ticks_per_s * 1e9);
}

static void fill_io(struct process_collector *self, const struct watched *w,
                    struct gsp_row_process_metrics *row)
{
    static const char *const keys[] = {"read_bytes", "write_bytes"};
    uint64_t v[GSP_COUNT(keys)];
    const int rc = gsp_collect__read(w->io_fd, &self->text);
    if (rc != 0 ||
        gsp_collect__parse_keys(gsp_buf_sv(&self->text), keys, GSP_COUNT(keys), v) == 0) {
        gsp_collect__trouble_add(&self->trouble, "process %d: I/O counters %s", (int)w->pid,
                                 w->io_fd < 0 || rc == GSP_E_PERM ? "are not readable"
                                                                  : "are not available");
        return;
    }
    row->read_bytes = gsp_collect__i64(v[0]);
    row->write_bytes = gsp_collect__i64(v[1]);
}

static void fill_pss(struct process_collector *self, struct watched *w, int64_t now_ns,
                     struct gsp_row_process_metrics *row)
{
    static const char *const keys[] = {"Pss", "Swap"};
    if (!self->env.pss)
        return;
    if (now_ns >= w->next_pss_ns) {
        uint64_t v[GSP_COUNT(keys)] = {GSP_UNKNOWN, GSP_UNKNOWN};
        w->next_pss_ns = now_ns + PSS_NS;
        if (gsp_collect__read(w->smaps_fd, &self->text) == 0)
            gsp_collect__parse_keys(gsp_buf_sv(&self->text), keys, GSP_COUNT(keys), v);
        w->pss_bytes = gsp_collect__i64(v[0]);
        w->swap_bytes = gsp_collect__i64(v[1]);
    }
    row->pss_bytes = w->pss_bytes;
    row->swap_bytes = w->swap_bytes;
    if (w->pss_bytes == GSP_NULL_I64)
        gsp_collect__trouble_add(&self->trouble, "process %d: proportional memory cannot be read",
                                 (int)w->pid);
}

static void fill_stat(struct process_collector *self, struct watched *w,
                      const struct gsp_pid_stat *stat, const struct gsp_collect_tick *tick,
                      struct gsp_row_process_metrics *row)
{
    const uint64_t cpu = cpu_ns(self, w, stat);
    const double rate =
        gsp_collect__rate(cpu, w->last_cpu_ns, gsp_collect__seconds(w->last_mono_ns, tick));
    row->cpu_percent = gsp_is_null_f64(rate) ? rate : rate / (double)GSP_NS_PER_S * 100;
    w->last_cpu_ns = cpu;
    w->last_mono_ns = tick->mono_ns;
    row->user_s = (double)stat->user_ticks / self->ticks_per_s;
    row->system_s = (double)stat->system_ticks / self->ticks_per_s;
    /* A process that exits releases its memory before it becomes a zombie, and one that the OOM
     * killer ends loses it earlier: a value of 0 means unknown. */
    row->vms_bytes = stat->vms_bytes == 0 ? GSP_NULL_I64 : gsp_collect__i64(stat->vms_bytes);
    row->rss_bytes = stat->rss_pages == 0 || stat->rss_pages > INT64_MAX / self->page_bytes
                         ? GSP_NULL_I64
                         : (int64_t)(stat->rss_pages * self->page_bytes);
    row->threads = gsp_collect__i64(stat->threads);
    row->minor_faults = gsp_collect__i64(stat->minor_faults);
    row->major_faults = gsp_collect__i64(stat->major_faults);
}

/* A process that was first seen between fork and exec has another environment now. */
static void update_name(const struct process_collector *self, struct watched *w, struct gsp_sv name)
{
    if (gsp_sv_eq(name, gsp_sv_of(w->name)))
        return;
    if (w->rank == GSP_NULL_I64)
        w->rank = rank_of(self, w->pid);
    snprintf(w->name, sizeof(w->name), "%.*s", (int)name.len, name.p);
}

static void put_process(struct process_collector *self, struct watched *w,
                        const struct gsp_collect_tick *tick, struct gsp_collect_sink *sink)
{
    struct gsp_row_process_metrics row = self->blank;
    struct gsp_pid_stat stat;
    row.ts_ns = tick->ts_ns;
    row.mono_ns = tick->mono_ns;
    row.pid = w->pid;
    row.rank = w->rank;
    const int rc = w->gone ? GSP_E_NOPROC : gsp_collect__read(w->stat_fd, &self->text);
    if (rc == GSP_E_NOPROC) {
        put_threads(self, w, tick, sink);
        if (!w->gone)
            close_watched(w);
        w->gone = true;
        gsp_collect__trouble_add(&self->trouble, "process %d has exited", (int)w->pid);
    } else if (rc != 0 || !gsp_collect__parse_pid_stat(gsp_buf_sv(&self->text), &stat)) {
        gsp_collect__trouble_add(&self->trouble, "process %d: malformed stat file", (int)w->pid);
    } else {
        row.name = sink->intern(sink, GSP_TABLE_process_metrics, stat.comm);
        row.state = sink->intern(sink, GSP_TABLE_process_metrics, (struct gsp_sv){&stat.state, 1});
        fill_stat(self, w, &stat, tick, &row);
        update_name(self, w, stat.comm);
        row.rank = w->rank;
        row.ctx_switches = ctx_switches(self, w, stat.threads, tick, sink);
        fill_io(self, w, &row);
        fill_pss(self, w, tick->mono_ns, &row);
    }
    sink->row(sink, GSP_TABLE_process_metrics, &row);
}

static void read_process(void *collector, const struct gsp_collect_tick *tick,
                         struct gsp_collect_sink *sink)
{
    struct process_collector *self = collector;
    gsp_collect__trouble_begin(&self->trouble);
    for (size_t i = 0; i < self->count; i++)
        put_process(self, &self->watched[i], tick, sink);
    gsp_collect__trouble_end(&self->trouble);
}

const struct gsp_collector_type gsp_collect__process = {
    .name = "process",
    .doc = "watched processes, from /proc/PID",
    .open = open_process,
    .read = read_process,
    .trouble = offsetof(struct process_collector, trouble),
    .close = close_process,
    .watch = watch,
};
