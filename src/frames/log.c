/* SPDX-License-Identifier: Apache-2.0 */
#include "frames/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "frames/log_internal.h"

#define SEGMENT_BYTES   (64ULL << 20)
#define KEEP_BYTES      (1ULL << 30)
/* Segments that no session needs. Each change of the metrics starts one. */
#define KEEP_SEGMENTS   4096U
/* A metric without a value in this many frames is not part of the next segment. */
#define METRIC_LIFE     1000U
#define BOOT_ID_PATH    "/proc/sys/kernel/random/boot_id"
#define BOOT_TEXT_BYTES 64U

static uint32_t sink_intern(struct gsp_collect_sink *sink, enum gsp_table_id table,
                            struct gsp_sv text)
{
    (void)table; /* all tables share one dictionary */
    struct gsp_frame_log *frames = (struct gsp_frame_log *)sink;
    return gsp_frames__string_intern(&frames->strings, text);
}

static void sink_row(struct gsp_collect_sink *sink, enum gsp_table_id table, const void *row)
{
    struct gsp_frame_log *frames = (struct gsp_frame_log *)sink;
    const struct gsp_table *described = gsp_wire_table_at(table);
    if (described)
        gsp_buf_put(&frames->rows[table], row, described->row_bytes);
}

/* Monotonic times are comparable only within one boot. */
static void read_boot(unsigned char out[FRAMES_BOOT_BYTES])
{
    gsp_auto_buf text = {0};
    memset(out, 0, FRAMES_BOOT_BYTES);
    if (gsp_file_read(BOOT_ID_PATH, BOOT_TEXT_BYTES, &text, NULL) != 0)
        return;
    uint64_t a = gsp_hash_bytes(text.p, text.len, 1);
    uint64_t b = gsp_hash_bytes(text.p, text.len, 2);
    memcpy(out, &a, sizeof(a));
    memcpy(out + sizeof(a), &b, sizeof(b));
}

static int make_folder(const char *path, struct gsp_err *err)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return 0;
    return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot create the folder %s: %s", path,
                       strerror(errno));
}

static int open_folder(struct gsp_frame_log *frames, const char *state, struct gsp_err *err)
{
    gsp_auto_free char *path = NULL;
    if (asprintf(&path, "%s/frames", state) < 0) {
        path = NULL;
        return gsp_err_nomem(err);
    }
    int rc = make_folder(state, err);
    if (rc == 0)
        rc = make_folder(path, err);
    if (rc)
        return rc;
    frames->folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (frames->folder_fd < 0)
        return gsp_err_set(err, GSP_E_IO, errno, "%s: %s", path, strerror(errno));
    return 0;
}

static int fill(struct gsp_frame_log *frames, const struct gsp_frame_log_options *options,
                struct gsp_err *err)
{
    frames->host = strdup(options->host ? options->host : "localhost");
    if (!frames->host)
        return gsp_err_nomem(err);
    frames->segment_bytes = options->segment_bytes ? options->segment_bytes : SEGMENT_BYTES;
    frames->keep_bytes = options->keep_bytes ? options->keep_bytes : KEEP_BYTES;
    frames->run = (uint64_t)gsp_realtime_ns() ^ ((uint64_t)getpid() << 40);
    read_boot(frames->boot);
    int rc = open_folder(frames, options->folder, err);
    return rc ? rc : gsp_frames__segments_load(frames, err);
}

int gsp_frames_log_open(const struct gsp_frame_log_options *options, struct gsp_frame_log **out,
                        struct gsp_err *err)
{
    *out = NULL;
    struct gsp_frame_log *frames = calloc(1, sizeof(*frames));
    if (!frames)
        return gsp_err_nomem(err);
    frames->sink = (struct gsp_collect_sink){.intern = sink_intern, .row = sink_row};
    frames->folder_fd = frames->num_fd = frames->text_fd = -1;
    frames->next_id = 1;
    int rc = fill(frames, options, err);
    if (rc)
        gsp_frames_log_close(frames);
    else
        *out = frames;
    return rc;
}

void gsp_frames_log_close(struct gsp_frame_log *frames)
{
    if (!frames)
        return;
    gsp_frames__segment_end(frames);
    gsp_fd_close(&frames->folder_fd);
    for (size_t i = 0; i < GSP_COUNT(frames->rows); i++)
        gsp_buf_free(&frames->rows[i]);
    gsp_frames__strings_free(&frames->strings);
    gsp_frames__metrics_free(&frames->catalog);
    gsp_buf_free(&frames->line);
    gsp_buf_free(&frames->row);
    gsp_buf_free(&frames->latest);
    free(frames->segments);
    free(frames->host);
    free(frames);
}

void gsp_frames_log_announce(struct gsp_frame_log *frames)
{
    gsp_lock_take(&frames->lock);
    frames->is_making = true;
    gsp_lock_release(&frames->lock);
}

void gsp_frames_log_begin(struct gsp_frame_log *frames, const struct gsp_collect_tick *tick)
{
    frames->tick = *tick;
    for (size_t i = 0; i < GSP_COUNT(frames->rows); i++)
        gsp_buf_clear(&frames->rows[i]);
    gsp_frames__metrics_clear(&frames->catalog);
}

struct gsp_collect_sink *gsp_frames_log_sink(struct gsp_frame_log *frames)
{
    return &frames->sink;
}

void gsp_frames_log_set_period(struct gsp_frame_log *frames, int64_t period_ns)
{
    atomic_store(&frames->period_ns, period_ns);
}

int64_t gsp_frames_log_period(const struct gsp_frame_log *frames)
{
    return atomic_load(&frames->period_ns);
}

/* Removes segments that no session needs until the limits hold, oldest first. */
static void remove_old(struct gsp_frame_log *frames)
{
    for (;;) {
        gsp_lock_take(&frames->lock);
        uint64_t bytes = 0;
        size_t spare = 0; /* the oldest segments that no session needs */
        while (spare + 1 < frames->segment_count) {
            const struct frames_segment *s = &frames->segments[spare];
            if (frames->keep_from && s->first_id + s->rows > frames->keep_from)
                break;
            bytes += gsp_frames__segment_bytes(s);
            spare++;
        }
        bool enough = bytes <= frames->keep_bytes && spare <= KEEP_SEGMENTS;
        uint64_t first_id = enough ? 0 : frames->segments[0].first_id;
        if (!enough)
            memmove(frames->segments, frames->segments + 1,
                    --frames->segment_count * sizeof(*frames->segments));
        gsp_lock_release(&frames->lock);
        if (enough)
            return;
        gsp_frames__segment_remove(frames, first_id);
    }
}

/* Makes sure that a segment for this frame is open. */
static int ready_segment(struct gsp_frame_log *frames, struct gsp_err *err)
{
    bool fits = frames->num_fd >= 0 && !frames->catalog.grown;
    if (fits) {
        const struct frames_segment *s = &frames->segments[frames->segment_count - 1];
        fits = s->rows == 0 || (s->first_id + s->rows == frames->next_id &&
                                gsp_frames__segment_bytes(s) < frames->segment_bytes);
    }
    if (fits)
        return 0;
    if (frames->num_fd >= 0 && frames->segments[frames->segment_count - 1].rows == 0) {
        /* It is empty, and the new segment has the same name. */
        gsp_frames__segment_end(frames);
        gsp_lock_take(&frames->lock);
        frames->segment_count--;
        gsp_lock_release(&frames->lock);
    }
    if (frames->next_id > METRIC_LIFE)
        gsp_frames__metrics_prune(&frames->catalog, frames->next_id - METRIC_LIFE);
    int rc = gsp_frames__segment_begin(frames, err);
    if (rc == 0)
        remove_old(frames);
    return rc;
}

static int write_frame(struct gsp_frame_log *frames, struct gsp_err *err)
{
    gsp_frames__numbers_set(frames);
    gsp_frames__text_write(frames, frames->next_id);
    for (size_t i = 0; i < GSP_COUNT(frames->rows); i++) {
        if (frames->rows[i].failed) {
            gsp_buf_free(&frames->rows[i]);
            return gsp_err_nomem(err);
        }
    }
    if (frames->line.len > FRAMES_TEXT_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "a frame has more than %u bytes", FRAMES_TEXT_MAX);
    int rc = ready_segment(frames, err);
    return rc ? rc : gsp_frames__segment_append(frames, frames->next_id, err);
}

int gsp_frames_log_end(struct gsp_frame_log *frames, struct gsp_err *err)
{
    struct gsp_err why = {0};
    int rc = write_frame(frames, &why);
    gsp_lock_take(&frames->lock);
    frames->values_lost = frames->strings.refused + frames->catalog.refused;
    frames->is_making = false;
    if (rc) {
        frames->lost++;
        frames->lost_pending += frames->lost_pending < UINT32_MAX;
        snprintf(frames->error, sizeof(frames->error), "%s", why.msg);
    } else {
        struct frames_segment *segment = &frames->segments[frames->segment_count - 1];
        segment->rows++;
        segment->text_bytes += frames->line.len;
        segment->synced = false;
        frames->latest_id = frames->next_id++;
        frames->lost_pending = 0;
        frames->error[0] = '\0';
        /* Swap the buffers: the old latest line becomes the memory of the next line. */
        struct gsp_buf older = frames->latest;
        frames->latest = frames->line;
        frames->line = older;
    }
    gsp_lock_release(&frames->lock);
    if (rc && err)
        *err = why;
    return rc;
}

uint64_t gsp_frames_log_next_id(struct gsp_frame_log *frames)
{
    gsp_lock_take(&frames->lock);
    uint64_t id = frames->next_id;
    gsp_lock_release(&frames->lock);
    return id;
}

uint64_t gsp_frames_log_next_announced_id(struct gsp_frame_log *frames)
{
    gsp_lock_take(&frames->lock);
    uint64_t id = frames->next_id + frames->is_making;
    gsp_lock_release(&frames->lock);
    return id;
}

void gsp_frames_log_skip_to(struct gsp_frame_log *frames, uint64_t next_id)
{
    gsp_lock_take(&frames->lock);
    if (next_id > frames->next_id)
        frames->next_id = next_id;
    gsp_lock_release(&frames->lock);
}

uint64_t gsp_frames__clip(const struct frames_segment *segment, uint64_t first, uint64_t last,
                          uint64_t *count)
{
    uint64_t end = segment->first_id + segment->rows; /* past the last */
    uint64_t from = first > segment->first_id ? first : segment->first_id;
    uint64_t to = last < end - 1 ? last : end - 1;
    *count = segment->rows && from < end && from <= to ? to - from + 1 : 0;
    return *count ? from - segment->first_id : 0;
}

/* The first segment that ends past the given id. */
static size_t find_segment(const struct gsp_frame_log *frames, uint64_t id)
    GSP_REQUIRES(&frames->lock)
{
    size_t lo = 0;
    size_t hi = frames->segment_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct frames_segment *s = &frames->segments[mid];
        if (s->first_id + s->rows <= id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

uint64_t gsp_frames_log_count(struct gsp_frame_log *frames, uint64_t first, uint64_t last)
{
    uint64_t total = 0;
    gsp_lock_take(&frames->lock);
    for (size_t i = find_segment(frames, first);
         i < frames->segment_count && frames->segments[i].first_id <= last; i++) {
        uint64_t count = 0;
        gsp_frames__clip(&frames->segments[i], first, last, &count);
        total += count;
    }
    gsp_lock_release(&frames->lock);
    return total;
}

uint64_t gsp_frames_log_text_bytes(struct gsp_frame_log *frames, uint64_t first, uint64_t last)
{
    uint64_t total = 0;
    gsp_lock_take(&frames->lock);
    for (size_t i = find_segment(frames, first);
         i < frames->segment_count && frames->segments[i].first_id <= last; i++) {
        const struct frames_segment *segment = &frames->segments[i];
        uint64_t count = 0;
        gsp_frames__clip(segment, first, last, &count);
        if (segment->rows)
            total +=
                (uint64_t)((double)segment->text_bytes * (double)count / (double)segment->rows);
    }
    gsp_lock_release(&frames->lock);
    return total;
}

int gsp_frames__snapshot(struct gsp_frame_log *frames, uint64_t first, uint64_t last,
                         struct frames_segment **out, size_t *count, struct gsp_err *err)
{
    *out = NULL;
    *count = 0;
    gsp_lock_take(&frames->lock);
    size_t from = find_segment(frames, first);
    size_t to = from;
    while (to < frames->segment_count && frames->segments[to].first_id <= last)
        to++;
    size_t n = to - from;
    struct frames_segment *copy = calloc(n + 1, sizeof(*copy));
    if (copy && n)
        memcpy(copy, frames->segments + from, n * sizeof(*copy));
    gsp_lock_release(&frames->lock);
    if (!copy)
        return gsp_err_nomem(err);
    *out = copy;
    *count = n;
    return 0;
}

/* Reads the monotonic time and the boot of a frame. Returns false if it does not exist. */
static bool frame_time(struct gsp_frame_log *frames, uint64_t id, int64_t *mono_ns,
                       unsigned char boot[FRAMES_BOOT_BYTES])
{
    struct frames_segment *segments = NULL;
    struct frames_head head = {0};
    struct frames_row row;
    size_t n = 0;
    uint64_t count = 0;
    int opened = -1;
    int rc = gsp_frames__snapshot(frames, id, id, &segments, &n, NULL);
    uint64_t at = n ? gsp_frames__clip(&segments[0], id, id, &count) : 0;
    if (rc == 0 && count)
        rc = gsp_frames_segment_open(frames->folder_fd, segments[0].first_id, &head, &opened, NULL);
    gsp_auto_fd fd = opened;
    if (rc == 0 && count)
        rc =
            gsp_frames__pread(fd, &row, sizeof(row), head.header_bytes + at * head.row_bytes, NULL);
    const bool found = rc == 0 && count;
    if (found) {
        *mono_ns = row.mono_ns;
        memcpy(boot, head.boot, FRAMES_BOOT_BYTES);
    }
    gsp_frames_head_free(&head);
    free(segments);
    return found;
}

int64_t gsp_frames__log_elapsed_ns(struct gsp_frame_log *frames, uint64_t first, uint64_t last)
{
    unsigned char boots[2][FRAMES_BOOT_BYTES];
    int64_t from_ns = 0;
    int64_t to_ns = 0;
    if (!frame_time(frames, first, &from_ns, boots[0]) ||
        !frame_time(frames, last, &to_ns, boots[1]) ||
        memcmp(boots[0], boots[1], FRAMES_BOOT_BYTES) != 0 || to_ns < from_ns)
        return 0;
    return to_ns - from_ns;
}

int gsp_frames__pread(int fd, void *out, size_t n, uint64_t offset, struct gsp_err *err)
{
    const ssize_t done = gsp_fd_read_at(fd, out, n, offset);
    if (done < 0)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot read the frame log: %s", strerror(errno));
    if ((size_t)done < n)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "a segment of the frame log is truncated");
    return 0;
}

uint64_t gsp_frames_log_latest(struct gsp_frame_log *frames, struct gsp_buf *out)
{
    gsp_lock_take(&frames->lock);
    uint64_t id = frames->latest_id;
    if (id)
        gsp_buf_put(out, frames->latest.p, frames->latest.len - FRAMES_LINE_END_LEN);
    gsp_lock_release(&frames->lock);
    return id;
}

void gsp_frames_log_keep_from(struct gsp_frame_log *frames, uint64_t frame_id)
{
    gsp_lock_take(&frames->lock);
    frames->keep_from = frame_id;
    gsp_lock_release(&frames->lock);
}

int gsp_frames_log_ranges(struct gsp_frame_log *frames, struct gsp_frame_log_range **out,
                          size_t *count, struct gsp_err *err)
{
    struct frames_segment *segments = NULL;
    size_t n = 0;
    *out = NULL;
    *count = 0;
    int rc = gsp_frames__snapshot(frames, 0, UINT64_MAX, &segments, &n, err);
    struct gsp_frame_log_range *ranges = rc ? NULL : calloc(n + 1, sizeof(*ranges));
    if (rc == 0 && !ranges)
        rc = gsp_err_nomem(err);
    for (size_t i = 0; i < n && rc == 0; i++)
        ranges[i] = (struct gsp_frame_log_range){segments[i].first_id, segments[i].rows};
    free(segments);
    if (rc)
        return rc;
    *out = ranges;
    *count = n;
    return 0;
}

static int sync_segment(const struct gsp_frame_log *frames, uint64_t first_id, struct gsp_err *err)
{
    struct frames_head head = {0};
    int opened = -1;
    int rc = gsp_frames_segment_open(frames->folder_fd, first_id, &head, &opened, err);
    gsp_frames_head_free(&head);
    gsp_auto_fd num = opened;
    gsp_auto_fd text = gsp_frames__text_open(frames, first_id);
    if (rc)
        return rc == GSP_E_NOFILE ? 0 : rc; /* removed in the meantime */
    if (text < 0 || fdatasync(text) != 0 || fdatasync(num) != 0)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot write the frame log: %s", strerror(errno));
    return 0;
}

int gsp_frames_log_sync(struct gsp_frame_log *frames, struct gsp_err *err)
{
    struct frames_segment *segments = NULL;
    size_t n = 0;
    int rc = gsp_frames__snapshot(frames, 0, UINT64_MAX, &segments, &n, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (segments[i].synced)
            continue;
        rc = sync_segment(frames, segments[i].first_id, err);
        gsp_lock_take(&frames->lock);
        size_t at = find_segment(frames, segments[i].first_id);
        /* Frames that were added in the meantime are synced by the next call. */
        if (rc == 0 && at < frames->segment_count &&
            frames->segments[at].first_id == segments[i].first_id)
            frames->segments[at].synced = frames->segments[at].rows == segments[i].rows;
        gsp_lock_release(&frames->lock);
    }
    if (rc == 0 && fsync(frames->folder_fd) != 0)
        rc = gsp_err_set(err, GSP_E_IO, errno, "cannot write the frame log: %s", strerror(errno));
    free(segments);
    return rc;
}

void gsp_frames_log_status(struct gsp_frame_log *frames, struct gsp_frame_log_status *out)
{
    *out = (struct gsp_frame_log_status){0};
    gsp_lock_take(&frames->lock);
    out->frames_lost = frames->lost;
    out->values_lost = frames->values_lost;
    out->segments = frames->segment_count;
    for (size_t i = 0; i < frames->segment_count; i++)
        out->bytes += gsp_frames__segment_bytes(&frames->segments[i]);
    snprintf(out->error, sizeof(out->error), "%s", frames->error);
    gsp_lock_release(&frames->lock);
}
