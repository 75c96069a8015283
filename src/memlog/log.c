/* SPDX-License-Identifier: Apache-2.0 */
#include "memlog/log.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/time.h"
#include "memlog/layout.h"

/* A process that ends in the last tenth of a recording counts as running until its end. */
#define LATE_PART      10
/* Shutdown of an interpreter: maximum time, and it frees more than a tenth between two ticks. */
#define SHUTDOWN_NS    (2 * GSP_NS_PER_S)
#define SHUTDOWN_PARTS 10

struct gsp_memlog {
    struct gsp_memlog_meta meta;
    struct gsp_profile *profile;
    struct gsp_buf file; /* content that open() read; empty after parse() */
    struct gsp_sv bytes;
    struct gsp_memlog_site *sites;
    size_t site_count;
    size_t site_cap;
    struct gsp_memlog_tick *ticks;
    size_t tick_count;
    size_t tick_cap;
    struct gsp_memlog_process *processes;
    size_t process_cap;
    int64_t (*totals)[GSP_MEMTOTALS]; /* of the last tick of each process */
    size_t total_cap;
    size_t process_count;
    int64_t last_ns;
    bool ended;
};

struct reading {
    struct gsp_memlog *log;
    struct gsp_cursor cur;
    struct gsp_err *err;
};

const char *gsp_memlog_total_name(size_t i)
{
    static const char *const names[GSP_MEMTOTALS] = {
        [GSP_MEMTOTAL_RSS] = "rss_bytes",
        [GSP_MEMTOTAL_LIVE] = "live_bytes",
        [GSP_MEMTOTAL_MALLOC] = "malloc_bytes",
        [GSP_MEMTOTAL_MMAP] = "mmap_bytes",
        [GSP_MEMTOTAL_PYTHON] = "python_bytes",
        [GSP_MEMTOTAL_DEVICE] = "device_bytes",
        [GSP_MEMTOTAL_DEVICE_RESERVED] = "device_reserved_bytes",
        [GSP_MEMTOTAL_PEAK] = "peak_bytes",
        [GSP_MEMTOTAL_PEAK_NS] = "peak_ns",
        [GSP_MEMTOTAL_STEP] = "step",
        [GSP_MEMTOTAL_LOST] = "lost",
        [GSP_MEMTOTAL_HUGE] = "huge_bytes",
    };
    return i < GSP_MEMTOTALS ? names[i] : NULL;
}

static int damaged(struct reading *rd)
{
    return gsp_err_set(rd->err, GSP_E_FORMAT, 0, "malformed record in the file");
}

static bool get(struct reading *rd, uint64_t *out)
{
    return gsp_cursor_varint(&rd->cur, out);
}

static bool get32(struct reading *rd, uint32_t *out)
{
    uint64_t v = 0;
    if (!get(rd, &v) || v > UINT32_MAX)
        return false;
    *out = (uint32_t)v;
    return true;
}

static bool get_signed(struct reading *rd, int64_t *out)
{
    uint64_t v = 0;
    if (!get(rd, &v))
        return false;
    *out = gsp_unzigzag(v);
    return true;
}

/* ------------------------------------------------------------------------------------ records */

static int read_meta(struct reading *rd)
{
    return get_signed(rd, &rd->log->meta.start_ns) ? GSP_OK : damaged(rd);
}

/* Ids are assigned in the order of definition. A duplicate definition would shift all later ids. */
static int check_id(struct reading *rd, int rc, uint32_t id, size_t count)
{
    return rc == GSP_OK && id != count ? damaged(rd) : rc;
}

static int read_string(struct reading *rd)
{
    struct gsp_profile *profile = rd->log->profile;
    struct gsp_sv text = {0};
    uint64_t len = 0;
    uint32_t id = 0;
    const size_t before = gsp_model_profile_string_count(profile);
    if (!get(rd, &len) || len == 0 || len > GSP_STRING_BYTES_MAX ||
        !gsp_cursor_bytes(&rd->cur, (size_t)len, &text))
        return damaged(rd);
    const int rc = gsp_model_profile_string(profile, text, &id, rd->err);
    return check_id(rd, rc, id, before + 1);
}

static int read_frame(struct reading *rd)
{
    struct gsp_profile *profile = rd->log->profile;
    struct gsp_frame frame = {0};
    uint64_t kind = 0;
    uint32_t id = 0;
    const size_t before = gsp_model_profile_frame_count(profile);
    if (!get32(rd, &frame.name) || !get32(rd, &frame.file) || !get32(rd, &frame.line) ||
        !get32(rd, &frame.first_line) || !get(rd, &kind) || kind > GSP_FRAME_BRIDGED)
        return damaged(rd);
    frame.kind = (enum gsp_frame_kind)kind;
    const int rc = gsp_model_profile_frame(profile, &frame, &id, rd->err);
    return check_id(rd, rc, id, before + 1);
}

static int read_stack(struct reading *rd)
{
    struct gsp_profile *profile = rd->log->profile;
    uint32_t caller = 0;
    uint32_t frame = 0;
    uint32_t id = 0;
    const size_t before = gsp_model_profile_stack_count(profile);
    if (!get32(rd, &caller) || !get32(rd, &frame))
        return damaged(rd);
    const int rc = gsp_model_profile_stack(profile, caller, frame, &id, rd->err);
    return check_id(rd, rc, id, before + 1);
}

static int read_process(struct reading *rd)
{
    struct gsp_memlog *log = rd->log;
    struct gsp_memlog_process about = {0};
    struct gsp_process process = {0};
    int64_t pid = 0;
    int64_t ppid = 0;
    uint64_t mode = 0;
    uint32_t index = 0;
    if (!get_signed(rd, &pid) || !get_signed(rd, &ppid) || !get32(rd, &process.name) ||
        !get32(rd, &process.cmdline) || !get32(rd, &process.version) || !get(rd, &mode) ||
        !get(rd, &about.interval_bytes) || mode >= GSP_MEMORY_MODES || pid < 0 || pid > INT32_MAX ||
        ppid < -1 || ppid > INT32_MAX)
        return damaged(rd);
    process.pid = (int32_t)pid;
    process.ppid = (int32_t)ppid;
    about.mode = (enum gsp_memory_mode)mode;
    int rc = gsp_model_profile_process(log->profile, &process, &index, rd->err);
    if (rc < 0)
        return rc;
    if (!gsp_array_fit(&log->processes, &log->process_cap, log->process_count + 1) ||
        !gsp_array_fit(&log->totals, &log->total_cap, log->process_count + 1))
        return gsp_err_nomem(rd->err);
    log->processes[log->process_count] = about;
    for (size_t i = 0; i < GSP_MEMTOTALS; i++)
        log->totals[log->process_count][i] = GSP_MEMLOG_UNKNOWN;
    log->process_count++;
    return GSP_OK;
}

static int read_thread(struct reading *rd)
{
    struct gsp_thread thread = {0};
    uint64_t is_main = 0;
    uint32_t index = 0;
    if (!get32(rd, &thread.process) || !get(rd, &thread.os_id) || !get32(rd, &thread.name) ||
        !get(rd, &is_main))
        return damaged(rd);
    thread.is_main = is_main == 1;
    return gsp_model_profile_thread(rd->log->profile, &thread, &index, rd->err);
}

static int read_site(struct reading *rd)
{
    struct gsp_memlog *log = rd->log;
    struct gsp_memlog_site site = {0};
    if (!get32(rd, &site.thread) || !get32(rd, &site.stack) || !get32(rd, &site.allocator) ||
        site.stack > gsp_model_profile_stack_count(log->profile))
        return damaged(rd);
    const struct gsp_thread *thread = gsp_model_profile_thread_at(log->profile, site.thread);
    if (!thread)
        return damaged(rd);
    site.process = thread->process;
    if (log->site_count == GSP_MEMLOG_SITES_MAX)
        return gsp_err_set(rd->err, GSP_E_LIMIT, 0, "the recording has too many sites");
    if (!gsp_array_fit(&log->sites, &log->site_cap, log->site_count + 1))
        return gsp_err_nomem(rd->err);
    log->sites[log->site_count++] = site;
    return GSP_OK;
}

static struct gsp_memlog_tick *add_tick(struct gsp_memlog *log)
{
    if (!gsp_array_fit(&log->ticks, &log->tick_cap, log->tick_count + 1))
        return NULL;
    log->ticks[log->tick_count] = (struct gsp_memlog_tick){0};
    return &log->ticks[log->tick_count++];
}

/* Reads one change of a site. Returns false if it is malformed. */
static bool get_change(struct gsp_cursor *cur, uint32_t *site, unsigned *has, int64_t values[7])
{
    uint64_t gap = 0;
    uint64_t bits = 0;
    static const unsigned fields[7] = {
        GSP_MEMLOG_HAS_ALLOC, GSP_MEMLOG_HAS_ALLOC, GSP_MEMLOG_HAS_FREE, GSP_MEMLOG_HAS_FREE,
        GSP_MEMLOG_HAS_PEAK,  GSP_MEMLOG_HAS_PEAK,  GSP_MEMLOG_HAS_VAR};
    if (!gsp_cursor_varint(cur, &gap) || !gsp_cursor_varint(cur, &bits) ||
        gap > GSP_MEMLOG_SITES_MAX || bits > GSP_MEMLOG_HAS_ALL)
        return false;
    *site += (uint32_t)gap;
    *has = (unsigned)bits;
    for (size_t i = 0; i < 7; i++) {
        uint64_t v = 0;
        values[i] = 0;
        if (!(bits & fields[i]))
            continue;
        if (!gsp_cursor_varint(cur, &v))
            return false;
        values[i] = gsp_unzigzag(v);
    }
    return true;
}

/* The sites of a tick are ascending and belong to its process. A replay relies on this. */
static bool check_changes(struct reading *rd, uint32_t process, uint32_t count)
{
    const struct gsp_memlog *log = rd->log;
    uint32_t site = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t last = site;
        unsigned has = 0;
        int64_t values[7];
        if (!get_change(&rd->cur, &site, &has, values) || (i > 0 && site <= last) ||
            site >= log->site_count || log->sites[site].process != process)
            return false;
    }
    return true;
}

static bool get_totals(struct reading *rd, int64_t totals[GSP_MEMTOTALS])
{
    uint64_t mask = 0;
    if (!get(rd, &mask) || mask >> GSP_MEMTOTALS)
        return false;
    for (size_t i = 0; i < GSP_MEMTOTALS; i++) {
        int64_t step = 0;
        if (!((mask >> i) & 1))
            continue;
        if (!get_signed(rd, &step))
            return false;
        totals[i] = (int64_t)((uint64_t)totals[i] + (uint64_t)step);
    }
    return true;
}

/* Reads the process and the time of a tick or of the end of a process. */
static int begin_tick(struct reading *rd, struct gsp_memlog_tick **out)
{
    struct gsp_memlog *log = rd->log;
    uint32_t process = 0;
    uint64_t step = 0;
    if (!get32(rd, &process) || !get(rd, &step) || process >= log->process_count ||
        step > (uint64_t)(INT64_MAX - log->last_ns))
        return damaged(rd);
    if (log->tick_count == GSP_MEMLOG_TICKS_MAX)
        return gsp_err_set(rd->err, GSP_E_LIMIT, 0, "the recording has too many ticks");
    struct gsp_memlog_tick *tick = add_tick(log);
    if (!tick)
        return gsp_err_nomem(rd->err);
    log->last_ns += (int64_t)step;
    log->meta.duration_ns = log->last_ns;
    tick->time_ns = log->last_ns;
    tick->process = process;
    log->processes[process].last_ns = log->last_ns;
    *out = tick;
    return GSP_OK;
}

static int read_tick(struct reading *rd)
{
    struct gsp_memlog *log = rd->log;
    struct gsp_memlog_tick *tick = NULL;
    int rc = begin_tick(rd, &tick);
    if (rc < 0)
        return rc;
    int64_t *totals = log->totals[tick->process];
    if (!get_totals(rd, totals) || !get32(rd, &tick->change_count))
        return damaged(rd);
    memcpy(tick->total, totals, sizeof(tick->total));
    tick->is_final = log->processes[tick->process].leaving;
    const unsigned char *base = (const unsigned char *)log->bytes.p;
    tick->changes = (size_t)(rd->cur.p - base);
    if (!check_changes(rd, tick->process, tick->change_count))
        return damaged(rd);
    tick->changes_end = (size_t)(rd->cur.p - base);
    return GSP_OK;
}

/* Returns the previous tick of the same process, or NULL. */
static struct gsp_memlog_tick *previous_tick(const struct gsp_memlog *log,
                                             const struct gsp_memlog_tick *tick)
{
    for (size_t i = (size_t)(tick - log->ticks); i > 0; i--) {
        struct gsp_memlog_tick *before = &log->ticks[i - 1];
        if (before->process == tick->process)
            return before->is_gone ? NULL : before;
    }
    return NULL;
}

/* Marks the final ticks of a process that did not report the shutdown of its interpreter: the last
 * tick, and earlier ones by which much memory was freed at once. An interpreter that shuts down
 * frees its objects. */
static void mark_shutdown(const struct gsp_memlog *log, const struct gsp_memlog_tick *gone)
{
    struct gsp_memlog_tick *tick = previous_tick(log, gone);
    while (tick && gone->time_ns - tick->time_ns <= SHUTDOWN_NS) {
        tick->is_final = true;
        struct gsp_memlog_tick *before = previous_tick(log, tick);
        const struct gsp_memlog_tick *earlier = before ? previous_tick(log, before) : NULL;
        if (!earlier || before->total[GSP_MEMTOTAL_LIVE] >= earlier->total[GSP_MEMTOTAL_LIVE] /
                                                                SHUTDOWN_PARTS *
                                                                (SHUTDOWN_PARTS - 1))
            return;
        tick = before;
    }
}

static int read_gone(struct reading *rd)
{
    struct gsp_memlog_tick *tick = NULL;
    int rc = begin_tick(rd, &tick);
    if (rc < 0)
        return rc;
    tick->is_gone = true;
    if (!rd->log->processes[tick->process].leaving)
        mark_shutdown(rd->log, tick);
    for (size_t i = 0; i < GSP_MEMTOTALS; i++)
        tick->total[i] = GSP_MEMLOG_UNKNOWN;
    rd->log->processes[tick->process].gone = true;
    return GSP_OK;
}

static int read_leaving(struct reading *rd)
{
    uint32_t process = 0;
    if (!get32(rd, &process) || process >= rd->log->process_count)
        return damaged(rd);
    rd->log->processes[process].leaving = true;
    return GSP_OK;
}

static int read_end(struct reading *rd)
{
    rd->log->ended = true;
    return GSP_OK;
}

static int read_huge(struct reading *rd)
{
    struct gsp_sv text = {0};
    uint64_t len = 0;
    char *out = rd->log->meta.huge_setting;
    if (!get(rd, &len) || len >= GSP_MEMLOG_SETTING_BYTES ||
        !gsp_cursor_bytes(&rd->cur, (size_t)len, &text))
        return damaged(rd);
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] < 'a' || text.p[i] > 'z')
            return damaged(rd);
        out[i] = text.p[i];
    }
    out[text.len] = '\0';
    return GSP_OK;
}

static int read_records(struct reading *rd)
{
    static int (*const readers[GSP_MEMLOG_TAGS])(struct reading *) = {
        [GSP_MEMLOG_META] = read_meta,       [GSP_MEMLOG_STRING] = read_string,
        [GSP_MEMLOG_FRAME] = read_frame,     [GSP_MEMLOG_STACK] = read_stack,
        [GSP_MEMLOG_PROCESS] = read_process, [GSP_MEMLOG_THREAD] = read_thread,
        [GSP_MEMLOG_SITE] = read_site,       [GSP_MEMLOG_TICK] = read_tick,
        [GSP_MEMLOG_GONE] = read_gone,       [GSP_MEMLOG_END] = read_end,
        [GSP_MEMLOG_HUGE] = read_huge,       [GSP_MEMLOG_LEAVING] = read_leaving,
    };
    int rc = GSP_OK;
    while (rc == GSP_OK && rd->cur.p < rd->cur.end) {
        uint64_t tag = 0;
        if (!get(rd, &tag) || tag >= GSP_MEMLOG_TAGS || !readers[tag])
            return damaged(rd);
        rc = readers[tag](rd);
    }
    return rc;
}

/* ------------------------------------------------------------------------------------- blocks */

bool gsp_memlog_is_recording(struct gsp_sv head)
{
    return head.len >= sizeof(gsp_memlog__magic) &&
           memcmp(head.p, gsp_memlog__magic, sizeof(gsp_memlog__magic)) == 0;
}

static int read_header(struct gsp_sv bytes, struct gsp_err *err)
{
    if (!gsp_memlog_is_recording(bytes))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not a memory recording");
    if (bytes.len < GSP_MEMLOG_HEADER_BYTES)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the file ends inside its header");
    const uint64_t version =
        gsp_memlog__get_number((const unsigned char *)bytes.p + sizeof(gsp_memlog__magic), 4);
    if (version != GSP_MEMLOG_VERSION)
        return gsp_err_set(err, GSP_E_VERSION, 0, "a memory recording of version %u",
                           (unsigned)version);
    return GSP_OK;
}

/* Returns the records of the block at *at, and advances *at. Returns false if it is incomplete. */
static bool next_block(struct gsp_sv bytes, size_t *at, uint32_t number, struct gsp_sv *out)
{
    const unsigned char *p = (const unsigned char *)bytes.p + *at;
    const size_t left = bytes.len - *at;
    if (left < GSP_MEMLOG_BLOCK_BYTES)
        return false;
    const uint64_t len = gsp_memlog__get_number(p, 4);
    if (len == 0 || len > GSP_MEMLOG_BLOCK_MAX || len > left - GSP_MEMLOG_BLOCK_BYTES ||
        gsp_memlog__get_number(p + 4, 4) != number)
        return false;
    *out = (struct gsp_sv){bytes.p + *at + GSP_MEMLOG_BLOCK_BYTES, (size_t)len};
    if (gsp_memlog__get_number(p + 8, 8) != gsp_memlog__checksum(*out, number))
        return false;
    *at += GSP_MEMLOG_BLOCK_BYTES + (size_t)len;
    return true;
}

static int read_blocks(struct gsp_memlog *log, struct gsp_err *err)
{
    size_t at = GSP_MEMLOG_HEADER_BYTES;
    struct gsp_sv records;
    for (uint32_t number = 0; next_block(log->bytes, &at, number, &records); number++) {
        const unsigned char *p = (const unsigned char *)records.p;
        struct reading rd = {log, {p, p + records.len}, err};
        int rc = read_records(&rd);
        if (rc < 0)
            return rc;
    }
    log->meta.lost_bytes = log->bytes.len - at;
    log->meta.truncated = !log->ended || at < log->bytes.len;
    return GSP_OK;
}

static int read_file(struct gsp_memlog *log, struct gsp_err *err)
{
    int rc = read_header(log->bytes, err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_new(false, &log->profile, err);
    if (rc < 0)
        return rc;
    struct gsp_model_profile_meta *meta = gsp_model_profile_meta(log->profile);
    meta->unit = GSP_UNIT_BYTES;
    rc = read_blocks(log, err);
    meta->start_ns = log->meta.start_ns;
    meta->duration_ns = log->meta.duration_ns;
    meta->truncated = log->meta.truncated;
    return rc;
}

int gsp_memlog__parse(struct gsp_sv bytes, struct gsp_memlog **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_memlog *log = calloc(1, sizeof(*log));
    if (!log)
        return gsp_err_nomem(err);
    log->bytes = bytes;
    int rc = read_file(log, err);
    if (rc < 0) {
        gsp_memlog_close(log);
        return rc;
    }
    *out = log;
    return GSP_OK;
}

int gsp_memlog_open(const char *path, struct gsp_memlog **out, struct gsp_err *err)
{
    gsp_auto_buf file = {0};
    *out = NULL;
    int rc = gsp_file_read(path, GSP_MEMLOG_FILE_MAX, &file, err);
    if (rc == GSP_OK && !gsp_memlog_is_recording(gsp_buf_sv(&file)))
        rc = gsp_err_set(err, GSP_E_FORMAT, 0, "%.150s is not a memory recording", path);
    if (rc == GSP_OK)
        rc = gsp_memlog__parse(gsp_buf_sv(&file), out, err);
    if (rc == GSP_OK) {
        (*out)->file = file;
        file = (struct gsp_buf){0};
    }
    return rc;
}

void gsp_memlog_close(struct gsp_memlog *log)
{
    if (!log)
        return;
    gsp_model_profile_free(log->profile);
    gsp_buf_free(&log->file);
    free(log->sites);
    free(log->ticks);
    free(log->processes);
    free(log->totals);
    free(log);
}

const struct gsp_memlog_meta *gsp_memlog_meta(const struct gsp_memlog *log)
{
    return &log->meta;
}

struct gsp_profile *gsp_memlog_profile(const struct gsp_memlog *log)
{
    return log->profile;
}

size_t gsp_memlog_site_count(const struct gsp_memlog *log)
{
    return log->site_count;
}

const struct gsp_memlog_site *gsp_memlog_site(const struct gsp_memlog *log, size_t i)
{
    return i < log->site_count ? &log->sites[i] : NULL;
}

const struct gsp_memlog_process *gsp_memlog_process(const struct gsp_memlog *log, size_t i)
{
    return i < log->process_count ? &log->processes[i] : NULL;
}

size_t gsp_memlog_tick_count(const struct gsp_memlog *log)
{
    return log->tick_count;
}

int64_t gsp_memlog_end_ns(const struct gsp_memlog *log)
{
    const int64_t late_ns = log->meta.duration_ns - log->meta.duration_ns / LATE_PART;
    int64_t first_ns = INT64_MAX;
    int64_t end_ns = 0;
    for (size_t i = 0; i < log->tick_count; i++) {
        const struct gsp_memlog_tick *tick = &log->ticks[i];
        const bool is_late = log->processes[tick->process].last_ns >= late_ns;
        if (tick->is_final && is_late && tick->time_ns < first_ns)
            first_ns = tick->time_ns;
    }
    for (size_t i = 0; i < log->tick_count && log->ticks[i].time_ns < first_ns; i++)
        end_ns = log->ticks[i].time_ns;
    return end_ns;
}

const struct gsp_memlog_tick *gsp_memlog_tick(const struct gsp_memlog *log, size_t i)
{
    return i < log->tick_count ? &log->ticks[i] : NULL;
}

/* ------------------------------------------------------------------------------------- replay */

int gsp_memlog_replay_begin(struct gsp_memlog_replay *replay, const struct gsp_memlog *log,
                            struct gsp_err *err)
{
    *replay = (struct gsp_memlog_replay){.log = log};
    replay->counts = calloc(log->site_count ? log->site_count : 1, sizeof(*replay->counts));
    return replay->counts ? GSP_OK : gsp_err_nomem(err);
}

void gsp_memlog_replay_end(struct gsp_memlog_replay *replay)
{
    free(replay->counts);
    free(replay->changed);
    free(replay->before);
    *replay = (struct gsp_memlog_replay){0};
}

static bool fit_changes(struct gsp_memlog_replay *replay, size_t count)
{
    return gsp_array_fit(&replay->changed, &replay->changed_cap, count) &&
           gsp_array_fit(&replay->before, &replay->before_cap, count);
}

static void add_to(uint64_t *value, int64_t step)
{
    *value += (uint64_t)step;
}

static void apply(struct gsp_memlog_count *count, const int64_t values[7])
{
    add_to(&count->alloc_bytes, values[0]);
    add_to(&count->alloc_count, values[1]);
    add_to(&count->free_bytes, values[2]);
    add_to(&count->free_count, values[3]);
    add_to(&count->peak_bytes, values[4]);
    add_to(&count->peak_count, values[5]);
    add_to(&count->live_var, values[6]);
    /* Readers rely on this, whatever the file contains. */
    if (count->free_bytes > count->alloc_bytes)
        count->free_bytes = count->alloc_bytes;
    if (count->free_count > count->alloc_count)
        count->free_count = count->alloc_count;
}

/* Frees all live bytes of the process. */
static bool apply_gone(struct gsp_memlog_replay *replay, uint32_t process)
{
    const struct gsp_memlog *log = replay->log;
    if (!fit_changes(replay, log->site_count))
        return false;
    for (size_t i = 0; i < log->site_count; i++) {
        struct gsp_memlog_count *count = &replay->counts[i];
        if (log->sites[i].process != process || gsp_memlog_count_live(count) == 0)
            continue;
        replay->changed[replay->changed_count] = (uint32_t)i;
        replay->before[replay->changed_count++] = *count;
        count->free_bytes = count->alloc_bytes;
        count->free_count = count->alloc_count;
        count->live_var = 0;
    }
    return true;
}

const struct gsp_memlog_tick *gsp_memlog_replay_next(struct gsp_memlog_replay *replay)
{
    const struct gsp_memlog *log = replay->log;
    const struct gsp_memlog_tick *tick = gsp_memlog_tick(log, replay->next);
    replay->changed_count = 0;
    if (!tick || !fit_changes(replay, tick->change_count))
        return NULL;
    if (tick->is_gone && !apply_gone(replay, tick->process))
        return NULL;
    const unsigned char *base = (const unsigned char *)log->bytes.p;
    struct gsp_cursor cur = {base + tick->changes, base + tick->changes_end};
    uint32_t site = 0;
    for (uint32_t i = 0; i < tick->change_count; i++) {
        unsigned has = 0;
        int64_t values[7];
        if (!get_change(&cur, &site, &has, values) || site >= log->site_count)
            break; /* cannot happen: check_changes() has checked it */
        replay->changed[replay->changed_count] = site;
        replay->before[replay->changed_count++] = replay->counts[site];
        apply(&replay->counts[site], values);
    }
    replay->next++;
    return tick;
}
