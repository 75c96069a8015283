/* SPDX-License-Identifier: Apache-2.0 */
#include "pyext/sampler.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/time.h"
#include "collect/collect.h"
#include "pyext/highwater.h"
#include "pyext/memwatch.h"

/* At this many, neighbours are merged; the interval between memory samples doubles. */
#define POINTS_MAX   8192U
#define READINGS_MAX 4096U
/* A reading of the machine not older than this is used for a block's end. */
#define FRESH_NS     (5 * GSP_NS_PER_MS)

/* Texts in rows that are distinguished here. */
enum word {
    WORD_OTHER = 1,
    WORD_LOOPBACK,
    WORD_ESTIMATE,
    WORD_PACKAGE,
    WORD_DRAM,
    WORD_GPU,
};

/* One sample of the machine; rates are over the time since the previous one. */
struct reading {
    int64_t since_ns;
    int64_t at_ns;
    int64_t gpu_bytes;     /* of all GPUs; -1: not known */
    int64_t gpu_own_bytes; /* of this process; -1: not reported by the driver */
    double gpu_share;
    double gpu_util_pct;
    double cpu_pct;
    double memory_pct;
    double disk_pct;
    double network_bytes;
    double joules;
    double cores;
    unsigned gpus;
    unsigned energy;
};

struct gsp_sampler {
    struct gsp_collect_sink sink; /* first member: passed to the sources */
    struct gsp_sampler_opts opts;
    pthread_mutex_t reading; /* protects collect and now; locked before mutex */
    struct gsp_collect *collect;
    struct reading *now;   /* filled by the current rows */
    pthread_mutex_t mutex; /* protects all that follows */
    pthread_cond_t changed;
    pthread_t thread;
    pid_t pid;       /* process that has the thread: a child of fork has none */
    bool has_thread; /* from the first block on; it sleeps while none is open */
    bool closing;
    unsigned open;   /* blocks */
    unsigned marks;  /* marks of highwater.h that the blocks have */
    int64_t step_ns; /* between samples of memory */
    struct gsp_sampler_memory_point *points;
    size_t point_count;
    struct reading *readings;
    size_t reading_count;
    struct reading last;
};

/* ------------------------------------------------------------------ rows */

static uint32_t intern(struct gsp_collect_sink *sink, enum gsp_table_id table, struct gsp_sv text)
{
    (void)sink;
    (void)table;
    static const struct {
        const char *text;
        enum word word;
    } words[] = {
        {"lo", WORD_LOOPBACK}, {"estimate", WORD_ESTIMATE}, {"package", WORD_PACKAGE},
        {"dram", WORD_DRAM},   {"gpu", WORD_GPU},
    };
    for (size_t i = 0; i < GSP_COUNT(words); i++)
        if (gsp_sv_eq(text, gsp_sv_of(words[i].text)))
            return words[i].word;
    return WORD_OTHER;
}

static bool known(double value)
{
    return !isnan(value); /* the NULL of rows is a NaN */
}

static void add(double *sum, double value)
{
    if (known(value))
        *sum = known(*sum) ? *sum + value : value;
}

static void add_bytes(int64_t *sum, int64_t bytes)
{
    if (bytes >= 0)
        *sum = *sum < 0 ? bytes : *sum + bytes;
}

static void raise_to(double *top, double value)
{
    if (known(value) && (!known(*top) || value > *top))
        *top = value;
}

static void add_gpu(struct reading *now, const struct gsp_row_gpu_metrics *row)
{
    add_bytes(&now->gpu_bytes, row->memory_used_bytes);
    if (row->memory_used_bytes >= 0 && row->memory_total_bytes > 0)
        raise_to(&now->gpu_share, (double)row->memory_used_bytes / (double)row->memory_total_bytes);
    if (known(row->util_percent)) {
        add(&now->gpu_util_pct, row->util_percent);
        now->gpus++;
    }
}

static void add_energy(struct reading *now, const struct gsp_row_energy_metrics *row)
{
    /* Other domains are part of a package. */
    if (!known(row->joules) ||
        (row->domain != WORD_PACKAGE && row->domain != WORD_DRAM && row->domain != WORD_GPU))
        return;
    add(&now->joules, row->joules);
    now->energy |= row->source == WORD_ESTIMATE ? GSP_SAMPLER_ESTIMATE : GSP_SAMPLER_COUNTERS;
}

static void add_row(struct gsp_collect_sink *sink, enum gsp_table_id table, const void *values)
{
    struct reading *now = ((struct gsp_sampler *)sink)->now;
    if (table == GSP_TABLE_system_cpu) {
        const struct gsp_row_system_cpu *row = values;
        if (row->cpu == GSP_NULL_I64) {
            now->cpu_pct = row->util_percent;
            now->cores = row->limit_cores;
        }
    } else if (table == GSP_TABLE_system_memory) {
        const struct gsp_row_system_memory *row = values;
        if (row->used_bytes >= 0 && row->total_bytes > 0)
            now->memory_pct = 100 * (double)row->used_bytes / (double)row->total_bytes;
    } else if (table == GSP_TABLE_system_disk) {
        raise_to(&now->disk_pct, ((const struct gsp_row_system_disk *)values)->util_percent);
    } else if (table == GSP_TABLE_system_network) {
        const struct gsp_row_system_network *row = values;
        if (row->device != WORD_LOOPBACK) {
            add(&now->network_bytes, row->rx_bytes_per_s);
            add(&now->network_bytes, row->tx_bytes_per_s);
        }
    } else if (table == GSP_TABLE_gpu_metrics) {
        add_gpu(now, values);
    } else if (table == GSP_TABLE_gpu_process) {
        const struct gsp_row_gpu_process *row = values;
        if (row->pid == getpid() || row->container_pid == getpid())
            add_bytes(&now->gpu_own_bytes, row->memory_used_bytes);
    } else if (table == GSP_TABLE_energy_metrics) {
        add_energy(now, values);
    }
}

/* ------------------------------------------------------------------ samples */

/* Merges two neighbours: adds sums, and weights means by their time. */
static void merge(struct reading *out, const struct reading *a, const struct reading *b)
{
    const double a_ns = (double)(a->at_ns - a->since_ns);
    const double b_ns = (double)(b->at_ns - b->since_ns);
    struct reading both = *b;
    both.since_ns = a->since_ns;
    both.energy |= a->energy;
    both.gpu_bytes = a->gpu_bytes > b->gpu_bytes ? a->gpu_bytes : b->gpu_bytes;
    both.gpu_own_bytes = a->gpu_own_bytes > b->gpu_own_bytes ? a->gpu_own_bytes : b->gpu_own_bytes;
    add(&both.network_bytes, a->network_bytes);
    add(&both.joules, a->joules);
    double *const means[] = {&both.gpu_util_pct, &both.cpu_pct, &both.memory_pct, &both.disk_pct};
    const double before[] = {a->gpu_util_pct, a->cpu_pct, a->memory_pct, a->disk_pct};
    for (size_t i = 0; i < GSP_COUNT(means); i++)
        if (!known(*means[i]))
            *means[i] = before[i];
        else if (known(before[i]) && a_ns + b_ns > 0)
            *means[i] = (before[i] * a_ns + *means[i] * b_ns) / (a_ns + b_ns);
    *out = both;
}

/* With the mutex held. */
static void keep_reading(struct gsp_sampler *sampler, const struct reading *reading)
{
    if (sampler->reading_count == READINGS_MAX) {
        for (size_t i = 0; i < READINGS_MAX / 2; i++)
            merge(&sampler->readings[i], &sampler->readings[i * 2], &sampler->readings[i * 2 + 1]);
        sampler->reading_count /= 2;
    }
    sampler->readings[sampler->reading_count++] = *reading;
    sampler->last = *reading;
}

/* With the mutex held. */
static void keep_point(struct gsp_sampler *sampler, const struct gsp_sampler_memory_point *point)
{
    if (sampler->point_count == POINTS_MAX) {
        for (size_t i = 0; i < POINTS_MAX / 2; i++) {
            const struct gsp_sampler_memory_point *two = &sampler->points[i * 2];
            struct gsp_sampler_memory_point one = two[1];
            /* Preserve the peak; for the trend either sample is fine. */
            if (two[0].resident_bytes > one.resident_bytes)
                one.resident_bytes = two[0].resident_bytes;
            sampler->points[i] = one;
        }
        sampler->point_count /= 2;
        sampler->step_ns *= 2;
    }
    sampler->points[sampler->point_count++] = *point;
}

static void sample_memory(struct gsp_sampler *sampler)
{
    struct gsp_memwatch_sample now;
    gsp_pyext__memory_now(NULL, &now);
    if (now.resident_bytes < 0)
        return;
    const struct gsp_sampler_memory_point point = {now.at_ns, now.resident_bytes,
                                                   now.anonymous_bytes};
    pthread_mutex_lock(&sampler->mutex);
    keep_point(sampler, &point);
    pthread_mutex_unlock(&sampler->mutex);
}

static struct reading blank(int64_t since_ns, int64_t at_ns)
{
    const double unknown = (double)NAN;
    return (struct reading){
        .since_ns = since_ns,
        .at_ns = at_ns,
        .gpu_bytes = -1,
        .gpu_own_bytes = -1,
        .gpu_share = unknown,
        .gpu_util_pct = unknown,
        .cpu_pct = unknown,
        .memory_pct = unknown,
        .disk_pct = unknown,
        .network_bytes = unknown,
        .joules = unknown,
        .cores = unknown,
    };
}

/* Samples the machine unless the last reading is younger than fresh_ns. */
static void sample_machine(struct gsp_sampler *sampler, int64_t fresh_ns)
{
    pthread_mutex_lock(&sampler->reading);
    pthread_mutex_lock(&sampler->mutex);
    const int64_t before_ns = sampler->last.at_ns;
    pthread_mutex_unlock(&sampler->mutex);
    const struct gsp_collect_tick tick = {gsp_realtime_ns(), gsp_now_ns()};
    if (sampler->collect && tick.mono_ns - before_ns >= fresh_ns) {
        struct reading now = blank(before_ns, tick.mono_ns);
        sampler->now = &now;
        gsp_collect_read(sampler->collect, &tick, &sampler->sink);
        sampler->now = NULL;
        if (now.gpus > 1)
            now.gpu_util_pct /= now.gpus;
        now.network_bytes *= (double)(now.at_ns - now.since_ns) / (double)GSP_NS_PER_S;
        pthread_mutex_lock(&sampler->mutex);
        keep_reading(sampler, &now);
        pthread_mutex_unlock(&sampler->mutex);
    }
    pthread_mutex_unlock(&sampler->reading);
}

/* ------------------------------------------------------------------ the thread */

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){(time_t)(ns / GSP_NS_PER_S), (long)(ns % GSP_NS_PER_S)};
}

static void *run(void *arg)
{
    struct gsp_sampler *sampler = arg;
    int64_t memory_ns = 0; /* when the next samples are due */
    int64_t machine_ns = 0;
    pthread_mutex_lock(&sampler->mutex);
    while (!sampler->closing) {
        if (sampler->open == 0) {
            pthread_cond_wait(&sampler->changed, &sampler->mutex);
            memory_ns = gsp_now_ns() + sampler->step_ns;
            machine_ns = gsp_now_ns() + sampler->opts.interval_ns;
            continue;
        }
        const struct timespec due = timespec_of(memory_ns < machine_ns ? memory_ns : machine_ns);
        pthread_cond_timedwait(&sampler->changed, &sampler->mutex, &due);
        const int64_t now_ns = gsp_now_ns();
        const int64_t step_ns = sampler->step_ns;
        if (sampler->open == 0)
            continue;
        pthread_mutex_unlock(&sampler->mutex);
        if (now_ns >= memory_ns) {
            sample_memory(sampler);
            memory_ns = now_ns + step_ns;
        }
        if (now_ns >= machine_ns) {
            sample_machine(sampler, FRESH_NS);
            machine_ns = now_ns + sampler->opts.interval_ns;
        }
        pthread_mutex_lock(&sampler->mutex);
    }
    pthread_mutex_unlock(&sampler->mutex);
    return NULL;
}

static void make_locks(struct gsp_sampler *sampler)
{
    gsp_thread_cond_init(&sampler->changed);
    pthread_mutex_init(&sampler->mutex, NULL);
    pthread_mutex_init(&sampler->reading, NULL);
}

/* If this fails, only the process itself is measured. */
static void open_sources(struct gsp_sampler *sampler)
{
    struct gsp_collect_env env = gsp_collect_env_here();
    env.cpu_tdp_watts = sampler->opts.cpu_tdp_watts;
    if (!sampler->opts.gpu)
        env.nvml_library = "";
    sampler->collect = NULL;
    gsp_ignore(gsp_collect_open(&env, &sampler->collect, NULL));
}

/* In a child of fork the thread does not exist and may have held the locks. It may have been
 * reading the sources, so they can be neither used nor closed. */
static void after_fork(struct gsp_sampler *sampler)
{
    if (sampler->pid == getpid())
        return;
    sampler->pid = getpid();
    if (sampler->has_thread)
        open_sources(sampler);
    sampler->has_thread = false;
    sampler->open = 0;
    sampler->marks = 0;
    sampler->point_count = 0;
    sampler->reading_count = 0;
    make_locks(sampler);
}

/* With the mutex held. */
static void start_thread(struct gsp_sampler *sampler)
{
    if (!sampler->has_thread)
        sampler->has_thread = gsp_thread_start(&sampler->thread, run, sampler) == 0;
}

/* ------------------------------------------------------------------ public */

struct gsp_sampler *gsp_pyext__sampler_new(const struct gsp_sampler_opts *opts)
{
    struct gsp_sampler *sampler = calloc(1, sizeof(*sampler));
    if (!sampler)
        return NULL;
    sampler->sink = (struct gsp_collect_sink){intern, add_row};
    sampler->opts = *opts;
    sampler->pid = getpid();
    sampler->points = calloc(POINTS_MAX, sizeof(*sampler->points));
    sampler->readings = calloc(READINGS_MAX, sizeof(*sampler->readings));
    make_locks(sampler);
    if (!sampler->points || !sampler->readings) {
        gsp_pyext__sampler_free(sampler);
        return NULL;
    }
    open_sources(sampler);
    sampler->last = blank(0, 0);
    sample_machine(sampler, 0);
    return sampler;
}

void gsp_pyext__sampler_free(struct gsp_sampler *sampler)
{
    if (!sampler)
        return;
    after_fork(sampler);
    pthread_mutex_lock(&sampler->mutex);
    sampler->closing = true;
    pthread_cond_broadcast(&sampler->changed);
    pthread_mutex_unlock(&sampler->mutex);
    if (sampler->has_thread)
        pthread_join(sampler->thread, NULL);
    pthread_cond_destroy(&sampler->changed);
    pthread_mutex_destroy(&sampler->mutex);
    pthread_mutex_destroy(&sampler->reading);
    gsp_collect_close(sampler->collect);
    free(sampler->points);
    free(sampler->readings);
    free(sampler);
}

static int64_t ns_of(struct timeval t)
{
    return t.tv_sec * GSP_NS_PER_S + t.tv_usec * GSP_NS_PER_US;
}

static int64_t begin_mark(struct gsp_sampler *sampler)
{
    const int64_t mark = sampler->opts.reset_peak ? gsp_pyext__highwater_begin() : -1;
    pthread_mutex_lock(&sampler->mutex);
    sampler->marks += mark >= 0;
    pthread_mutex_unlock(&sampler->mutex);
    return mark;
}

void gsp_pyext__sampler_begin(struct gsp_sampler *sampler, struct gsp_sampler_window_begin *begin)
{
    after_fork(sampler);
    pthread_mutex_lock(&sampler->mutex);
    if (sampler->open++ == 0) {
        sampler->point_count = 0;
        sampler->reading_count = 0;
        sampler->step_ns = sampler->opts.first_ns;
        start_thread(sampler);
        pthread_cond_broadcast(&sampler->changed);
    }
    pthread_mutex_unlock(&sampler->mutex);
    sample_machine(sampler, FRESH_NS);
    struct gsp_memwatch_sample now;
    gsp_pyext__memory_now(NULL, &now);
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    *begin = (struct gsp_sampler_window_begin){
        .user_ns = ns_of(usage.ru_utime),
        .system_ns = ns_of(usage.ru_stime),
        .resident_bytes = now.resident_bytes,
        .high_water_bytes = usage.ru_maxrss * 1024,
        .mark = begin_mark(sampler),
        .at_ns = gsp_now_ns(),
    };
}

/* Returns the share of a reading's time within the window, 0 to 1. */
static double part_within(const struct reading *reading, int64_t began_ns, int64_t ended_ns)
{
    const int64_t from = reading->since_ns > began_ns ? reading->since_ns : began_ns;
    const int64_t to = reading->at_ns < ended_ns ? reading->at_ns : ended_ns;
    const int64_t whole = reading->at_ns - reading->since_ns;
    return to > from && whole > 0 ? (double)(to - from) / (double)whole : 0;
}

struct mean {
    double sum;
    double weight;
};

static void mean_add(struct mean *mean, double value, double weight)
{
    if (known(value) && weight > 0) {
        mean->sum += value * weight;
        mean->weight += weight;
    }
}

/* Returns the mean, or `otherwise` for a block too short to have a reading. */
static double mean_of(const struct mean *mean, double otherwise)
{
    return mean->weight > 0 ? mean->sum / mean->weight : otherwise;
}

static int64_t gpu_bytes_of(const struct reading *reading)
{
    return reading->gpu_own_bytes >= 0 ? reading->gpu_own_bytes : reading->gpu_bytes;
}

/* With the mutex held. */
static void sum_up(const struct gsp_sampler *sampler, struct gsp_sampler_window *out)
{
    struct mean gpu = {0};
    struct mean cpu = {0};
    struct mean memory = {0};
    struct mean disk = {0};
    const struct reading *last = &sampler->last;
    out->gpu_peak_bytes = gpu_bytes_of(last);
    for (size_t i = 0; i < sampler->reading_count; i++) {
        const struct reading *r = &sampler->readings[i];
        const double part = part_within(r, out->began_ns, out->ended_ns);
        const double weight = part * (double)(r->at_ns - r->since_ns);
        mean_add(&gpu, r->gpu_util_pct, weight);
        mean_add(&cpu, r->cpu_pct, weight);
        mean_add(&memory, r->memory_pct, weight);
        mean_add(&disk, r->disk_pct, weight);
        if (part > 0) {
            add(&out->network_bytes, r->network_bytes * part);
            add(&out->joules, r->joules * part);
            out->energy |= known(r->joules) ? r->energy : 0;
        }
        if (part > 0 && gpu_bytes_of(r) > out->gpu_peak_bytes)
            out->gpu_peak_bytes = gpu_bytes_of(r);
    }
    out->gpu_util_pct = mean_of(&gpu, last->gpu_util_pct);
    out->cpu_pct = mean_of(&cpu, last->cpu_pct);
    out->memory_pct = mean_of(&memory, last->memory_pct);
    out->disk_pct = mean_of(&disk, last->disk_pct);
    out->cores = last->cores;
    for (size_t i = 0; i < sampler->point_count; i++) {
        const struct gsp_sampler_memory_point *p = &sampler->points[i];
        if (p->at_ns >= out->began_ns && p->at_ns <= out->ended_ns &&
            p->resident_bytes > out->peak_bytes)
            out->peak_bytes = p->resident_bytes;
    }
}

/* In a child of fork that ends its parent's block, CPU time may have decreased. */
static int64_t not_negative(int64_t ns)
{
    return ns > 0 ? ns : 0;
}

void gsp_pyext__sampler_so_far(struct gsp_sampler *sampler,
                               const struct gsp_sampler_window_begin *begin,
                               struct gsp_sampler_window *out)
{
    after_fork(sampler);
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    *out = (struct gsp_sampler_window){
        .began_ns = begin->at_ns,
        .ended_ns = gsp_now_ns(),
        .user_ns = not_negative(ns_of(usage.ru_utime) - begin->user_ns),
        .system_ns = not_negative(ns_of(usage.ru_stime) - begin->system_ns),
        .first_bytes = begin->resident_bytes,
        .peak_bytes = begin->resident_bytes,
        .network_bytes = (double)NAN,
        .joules = (double)NAN,
    };
    struct gsp_memwatch_sample now;
    gsp_pyext__memory_now(NULL, &now);
    out->last_bytes = now.resident_bytes;
    if (now.resident_bytes > out->peak_bytes)
        out->peak_bytes = now.resident_bytes;
    sample_machine(sampler, FRESH_NS);
    pthread_mutex_lock(&sampler->mutex);
    sum_up(sampler, out);
    pthread_mutex_unlock(&sampler->mutex);
    /* The kernel's mark is exact. */
    int64_t peak_bytes = gsp_pyext__highwater_since(begin->mark);
    if (peak_bytes < 0 && usage.ru_maxrss * 1024 > begin->high_water_bytes) {
        /* Without a reset, the mark can only have risen within the block. */
        peak_bytes = usage.ru_maxrss * 1024;
    }
    if (peak_bytes > out->peak_bytes)
        out->peak_bytes = peak_bytes;
}

struct gsp_sampler_memory_point *gsp_pyext__sampler_memory(struct gsp_sampler *sampler,
                                                           int64_t began_ns, int64_t ended_ns,
                                                           size_t *count)
{
    after_fork(sampler);
    pthread_mutex_lock(&sampler->mutex);
    struct gsp_sampler_memory_point *copy = malloc((sampler->point_count + 1) * sizeof(*copy));
    *count = 0;
    for (size_t i = 0; copy && i < sampler->point_count; i++)
        if (sampler->points[i].at_ns >= began_ns && sampler->points[i].at_ns <= ended_ns)
            copy[(*count)++] = sampler->points[i];
    pthread_mutex_unlock(&sampler->mutex);
    return copy;
}

void gsp_pyext__sampler_end(struct gsp_sampler *sampler)
{
    after_fork(sampler);
    pthread_mutex_lock(&sampler->mutex);
    sampler->open -= sampler->open > 0;
    if (sampler->marks > 0) {
        sampler->marks--;
        gsp_pyext__highwater_end();
    }
    pthread_mutex_unlock(&sampler->mutex);
}

double gsp_pyext__sampler_gpu_share(struct gsp_sampler *sampler)
{
    after_fork(sampler);
    sample_machine(sampler, FRESH_NS);
    pthread_mutex_lock(&sampler->mutex);
    const double share = sampler->last.gpu_share;
    pthread_mutex_unlock(&sampler->mutex);
    return share;
}
