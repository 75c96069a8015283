/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "daemon/sessions_internal.h"

/* The lines. Tabs separate the fields.
 *   S id first_frame start_ns flags file name labels pids     flags: f force, a anonymous, s
 *                                                             stacks, n native, r and millionths
 *                                                             of a hertz
 *   E id last_frame end_ns file period_ns
 *   A id
 *   L id
 *   W id frame_count
 *   D id
 *   R, P: sessions_stacks.c                                                           */
#define NUMBER_BYTES 24U
#define FIELDS_MAX   9U
#define FLAGS_BYTES  32U
/* Rates are written as integers. */
#define RATE_UNIT    1e6
/* Obsolete lines that a journal may have in addition to five for each session. */
#define SPARE_LINES  1000U

struct line {
    struct gsp_sv fields[FIELDS_MAX];
    size_t count;
    char numbers[4][NUMBER_BYTES];
    char flags[FLAGS_BYTES];
    struct gsp_buf pids;
};

static void add_number(struct line *line, size_t which, int64_t v)
{
    snprintf(line->numbers[which], NUMBER_BYTES, "%" PRId64, v);
    line->fields[line->count++] = gsp_sv_of(line->numbers[which]);
}

/* The line's fields borrow from the session. */
static void make_line(struct line *line, enum session_change change, const struct session *s)
{
    static const char KINDS[] = "SEALWD";
    const char *kind = strchr(KINDS, (int)change);
    *line = (struct line){.fields = {{kind, 1}}, .count = 1};
    add_number(line, 0, (int64_t)s->id);
    switch (change) {
    case SESSION_STARTS:
        add_number(line, 1, (int64_t)s->first_frame);
        add_number(line, 2, s->start_ns);
        snprintf(line->flags, FLAGS_BYTES, "%s%s", s->force ? "f" : "", s->anonymous ? "a" : "");
        if (s->stacks)
            snprintf(line->flags, FLAGS_BYTES, "%s%ss%sr%" PRId64, s->force ? "f" : "",
                     s->anonymous ? "a" : "", s->stack_native ? "n" : "",
                     (int64_t)llround(s->stack_rate_hz * RATE_UNIT));
        line->fields[line->count++] = gsp_sv_of(line->flags);
        line->fields[line->count++] = gsp_sv_of(s->file);
        line->fields[line->count++] = gsp_sv_of(s->name);
        line->fields[line->count++] = gsp_sv_of(s->labels);
        for (uint32_t i = 0; i < s->pid_count; i++)
            gsp_buf_printf(&line->pids, "%s%d", i ? " " : "", (int)s->pids[i]);
        line->fields[line->count++] = gsp_buf_sv(&line->pids);
        break;
    case SESSION_ENDS:
        add_number(line, 1, (int64_t)s->last_frame);
        add_number(line, 2, s->end_ns);
        line->fields[line->count++] = gsp_sv_of(s->file);
        add_number(line, 3, s->period_ns);
        break;
    case SESSION_IS_SAFE:
        add_number(line, 1, (int64_t)s->frame_count);
        break;
    case SESSION_GOES_ON:
    case SESSION_IS_CUT:
    case SESSION_FORGOTTEN:
    default:
        break;
    }
}

int gsp_daemon__sessions_journal_append(struct gsp_sessions *sessions, enum session_change change,
                                        const struct session *s, uint64_t *mark,
                                        struct gsp_err *err)
{
    struct line line;
    make_line(&line, change, s);
    int rc = line.pids.failed
                 ? gsp_err_nomem(err)
                 : gsp_frames_journal_append(sessions->journal, line.fields, line.count, mark, err);
    gsp_buf_free(&line.pids);
    return rc;
}

/* Reading. */

bool gsp_daemon__sessions_parse_number(struct gsp_sv field, int64_t *out)
{
    char text[NUMBER_BYTES];
    if (field.len == 0 || field.len >= sizeof(text))
        return false;
    memcpy(text, field.p, field.len);
    text[field.len] = '\0';
    return gsp_parse_i64(text, 0, INT64_MAX, out, NULL) == 0;
}

static bool read_pids(struct session *s, struct gsp_sv field)
{
    s->pids = calloc(GSP_SESSION_PIDS_MAX, sizeof(*s->pids));
    struct gsp_sv part;
    while (s->pids && s->pid_count < GSP_SESSION_PIDS_MAX && gsp_sv_split(&field, ' ', &part)) {
        int64_t pid = 0;
        if (!gsp_daemon__sessions_parse_number(part, &pid) || pid > INT32_MAX)
            return false;
        s->pids[s->pid_count++] = (int32_t)pid;
    }
    return s->pids != NULL;
}

bool gsp_daemon__sessions_file_is_valid(struct gsp_sv file)
{
    return file.len && file.len < sizeof(((struct gsp_session *)NULL)->file) && file.p[0] != '.' &&
           !memchr(file.p, '/', file.len) && !memchr(file.p, 0, file.len);
}

static void read_flags(struct session *s, struct gsp_sv flags)
{
    int64_t rate = 0;
    s->stack_rate_hz = GSP_STACK_RATE_HZ;
    for (; flags.len; flags.p++, flags.len--) {
        s->force = s->force || *flags.p == 'f';
        s->anonymous = s->anonymous || *flags.p == 'a';
        s->stacks = s->stacks || *flags.p == 's';
        s->stack_native = s->stack_native || *flags.p == 'n';
        if (*flags.p != 'r')
            continue;
        const struct gsp_sv digits = {flags.p + 1, flags.len - 1};
        if (gsp_daemon__sessions_parse_number(digits, &rate) && rate > 0)
            s->stack_rate_hz = (double)rate / RATE_UNIT;
        return;
    }
}

static bool fill_started(struct session *s, const struct gsp_sv *f)
{
    int64_t first = 0;
    if (!gsp_daemon__sessions_parse_number(f[2], &first) ||
        !gsp_daemon__sessions_parse_number(f[3], &s->start_ns) ||
        !gsp_daemon__sessions_file_is_valid(f[5]) ||
        gsp_daemon__session_name_check(f[6], NULL) != 0)
        return false;
    s->first_frame = (uint64_t)first;
    read_flags(s, f[4]);
    s->file = gsp_sv_dup(f[5]);
    s->name = gsp_sv_dup(f[6]);
    if (!s->file || !s->name)
        return false;
    if (f[7].len) {
        s->labels = gsp_sv_dup(f[7]);
        if (!s->labels)
            return false;
    }
    return !f[8].len || read_pids(s, f[8]);
}

static void replay_start(struct gsp_sessions *sessions, int64_t id, const struct gsp_sv *f)
    GSP_REQUIRES(&sessions->lock)
{
    struct session *s = calloc(1, sizeof(*s));
    if (!s)
        return;
    s->id = (uint64_t)id;
    if (!fill_started(s, f)) {
        gsp_log_warn("daemon", "the journal has a malformed session");
        gsp_daemon__sessions_free_session(s);
        return;
    }
    gsp_frames_log_skip_to(sessions->frames, s->first_frame);
    uint32_t slot = gsp_daemon__sessions_insert(sessions, s);
    if (slot == SESSION_NONE || !gsp_hmap_put(&sessions->ids, s->id, 0, slot)) {
        gsp_log_warn("daemon", "out of memory: a session of the journal is lost");
        if (slot == SESSION_NONE)
            gsp_daemon__sessions_free_session(s);
    }
}

static void replay_end(struct gsp_sessions *sessions, uint32_t slot, const struct gsp_sv *f)
    GSP_REQUIRES(&sessions->lock)
{
    struct session *s = sessions->slots[slot];
    int64_t last = 0;
    int64_t end_ns = 0;
    char file[sizeof(((struct gsp_session *)NULL)->file)];
    if (!gsp_daemon__sessions_parse_number(f[2], &last) ||
        !gsp_daemon__sessions_parse_number(f[3], &end_ns) ||
        !gsp_daemon__sessions_file_is_valid(f[4]))
        return;
    memcpy(file, f[4].p, f[4].len);
    file[f[4].len] = '\0';
    if (!gsp_daemon__sessions_set_file(sessions, slot, file))
        return;
    gsp_daemon__sessions_set_state(sessions, s, SESSION_ENDED);
    s->claimed = true;
    s->last_frame = (uint64_t)last;
    s->end_ns = end_ns;
    gsp_frames_log_skip_to(sessions->frames, s->last_frame + 1);
}

void gsp_daemon__sessions_replay(void *ctx, const struct gsp_sv *fields, size_t count)
{
    struct gsp_sessions *sessions = ctx;
    int64_t id = 0;
    gsp_lock_assert_held(&sessions->lock); /* gsp_daemon__sessions_open() holds it */
    if (count < 2 || fields[0].len != 1 || !gsp_daemon__sessions_parse_number(fields[1], &id))
        return;
    if ((uint64_t)id >= sessions->next_id)
        sessions->next_id = (uint64_t)id + 1;
    char kind = fields[0].p[0];
    const uint32_t *found = gsp_hmap_get(&sessions->ids, (uint64_t)id, 0);
    uint32_t slot = found ? *found : SESSION_NONE;
    if (kind == SESSION_STARTS && slot == SESSION_NONE && count == FIELDS_MAX)
        replay_start(sessions, id, fields);
    if (slot == SESSION_NONE || !sessions->slots[slot])
        return;
    gsp_daemon__sessions_replay_part(sessions->slots[slot], fields, count);
    struct session *s = sessions->slots[slot];
    int64_t v = 0;
    if (kind == SESSION_ENDS && (count == 5 || count == 6) && s->state <= SESSION_ENDED) {
        /* Old journals have no period. */
        replay_end(sessions, slot, fields);
        if (count == 6 && gsp_daemon__sessions_parse_number(fields[5], &v))
            s->period_ns = v;
    } else if (kind == SESSION_GOES_ON && s->state == SESSION_ENDED) {
        gsp_daemon__sessions_set_state(sessions, s, SESSION_ACTIVE);
        s->end_ns = 0;
        s->cut = false;
    } else if (kind == SESSION_IS_CUT) {
        s->cut = true;
    } else if (kind == SESSION_IS_SAFE && count == 3 && s->state == SESSION_ENDED &&
               gsp_daemon__sessions_parse_number(fields[2], &v)) {
        gsp_daemon__sessions_set_state(sessions, s, SESSION_DONE);
        s->frame_count = (uint64_t)v;
        gsp_daemon__sessions_measure(sessions, s);
    } else if (kind == SESSION_FORGOTTEN) {
        gsp_daemon__sessions_remove(sessions, slot);
        gsp_ignore(!gsp_hmap_put(&sessions->ids, (uint64_t)id, 0, SESSION_NONE));
    }
}

/* Compaction. */

static void put_change(struct gsp_buf *out, enum session_change change, const struct session *s)
{
    struct line line;
    make_line(&line, change, s);
    gsp_frames_journal_line(out, line.fields, line.count);
    out->failed = out->failed || line.pids.failed;
    gsp_buf_free(&line.pids);
}

static int by_id(const void *a, const void *b)
{
    const struct session *x = NULL;
    const struct session *y = NULL;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x->id < y->id ? -1 : x->id > y->id;
}

void gsp_daemon__sessions_compact(struct gsp_sessions *sessions)
{
    if (gsp_frames_journal_lines(sessions->journal) <= 5 * sessions->live + SPARE_LINES)
        return;
    struct session **sorted = calloc(sessions->live + 1, sizeof(*sorted));
    if (!sorted)
        return;
    size_t n = 0;
    for (size_t i = 0; i < sessions->slot_count; i++)
        if (sessions->slots[i])
            sorted[n++] = sessions->slots[i];
    qsort(sorted, n, sizeof(*sorted), by_id);
    gsp_auto_buf text = {0};
    size_t lines = 0;
    for (size_t i = 0; i < n; i++) {
        put_change(&text, SESSION_STARTS, sorted[i]);
        lines += 1 + gsp_daemon__sessions_put_parts(&text, sorted[i]);
        if (sorted[i]->state != SESSION_ACTIVE) {
            put_change(&text, SESSION_ENDS, sorted[i]);
            lines++;
        }
        if (sorted[i]->cut) {
            put_change(&text, SESSION_IS_CUT, sorted[i]);
            lines++;
        }
        if (sorted[i]->state == SESSION_DONE) {
            put_change(&text, SESSION_IS_SAFE, sorted[i]);
            lines++;
        }
    }
    struct gsp_err err = {0};
    if (text.failed ||
        gsp_frames_journal_rewrite(sessions->journal, gsp_buf_sv(&text), lines, &err) != 0)
        gsp_log_warn("daemon", "cannot compact the journal: %s",
                     text.failed ? "out of memory" : err.msg);
    free(sorted);
}
