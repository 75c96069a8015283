/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sessions_stacks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/log.h"
#include "base/time.h"
#include "daemon/sessions_internal.h"
#include "ring/process.h"
#include "wire/table.h"

/* The lines. Tabs separate the fields.
 *   R id pid process_start start_ns kept file          kept: k or empty
 *   P id part end_ns samples how error                 samples: empty if not known */
#define LINE_FIELDS  7U
#define NUMBERS_MAX  4U
#define NUMBER_BYTES 24U

struct line {
    struct gsp_sv fields[LINE_FIELDS];
    size_t count;
    char numbers[NUMBERS_MAX][NUMBER_BYTES];
    size_t number_count;
};

static void add_text(struct line *line, const char *text)
{
    line->fields[line->count++] = gsp_sv_of(text);
}

static void add_number(struct line *line, int64_t v)
{
    char *text = line->numbers[line->number_count++];
    snprintf(text, NUMBER_BYTES, "%" PRId64, v);
    add_text(line, text);
}

/* The fields of the line borrow from the session. */
static void make_begin(struct line *line, const struct session *s, const struct stacks_part *part)
{
    *line = (struct line){.count = 0};
    add_text(line, "R");
    add_number(line, (int64_t)s->id);
    add_number(line, part->pid);
    add_number(line, (int64_t)part->process_start);
    add_number(line, part->start_ns);
    add_text(line, part->kept ? "k" : "");
    add_text(line, part->file);
}

static void make_end(struct line *line, const struct session *s, const struct stacks_part *part)
{
    *line = (struct line){.count = 0};
    add_text(line, "P");
    add_number(line, (int64_t)s->id);
    add_number(line, (int64_t)(part - s->parts));
    add_number(line, part->end_ns);
    if (part->samples == GSP_NULL_I64)
        add_text(line, "");
    else
        add_number(line, part->samples);
    line->fields[line->count++] = (struct gsp_sv){&part->end, 1};
    add_text(line, part->error ? part->error : "");
}

void gsp_daemon__sessions_free_parts(struct session *s)
{
    for (size_t i = 0; i < s->part_count; i++) {
        free(s->parts[i].file);
        free(s->parts[i].error);
    }
    free(s->parts);
}

/* Adds a recording. Returns NULL without memory. */
static struct stacks_part *add_part(struct session *s, struct gsp_sv file)
{
    if (!gsp_array_fit(&s->parts, &s->part_cap, s->part_count + 1))
        return NULL;
    char *copy = gsp_sv_dup(file);
    if (!copy)
        return NULL;
    struct stacks_part *part = &s->parts[s->part_count++];
    *part = (struct stacks_part){.file = copy, .samples = GSP_NULL_I64, .end = GSP_STACKS_RUN};
    return part;
}

static void drop_last(struct session *s)
{
    free(s->parts[--s->part_count].file);
}

static void replay_begin(struct session *s, const struct gsp_sv *f)
{
    int64_t pid = 0;
    int64_t process_start = 0;
    int64_t start_ns = 0;
    if (!gsp_daemon__sessions_parse_number(f[2], &pid) || pid > INT32_MAX ||
        !gsp_daemon__sessions_parse_number(f[3], &process_start) ||
        !gsp_daemon__sessions_parse_number(f[4], &start_ns) ||
        (f[6].len && !gsp_daemon__sessions_file_is_valid(f[6])))
        return;
    struct stacks_part *part = add_part(s, f[6]);
    if (!part) {
        gsp_log_warn("daemon", "out of memory: a stack recording of the journal is lost");
        return;
    }
    part->pid = (int32_t)pid;
    part->process_start = (uint64_t)process_start;
    part->start_ns = start_ns;
    part->kept = f[5].len > 0;
}

static void replay_end(struct session *s, const struct gsp_sv *f)
{
    static const char HOWS[] = {GSP_STACKS_ENDED, GSP_STACKS_STOPPED, GSP_STACKS_CUT};
    int64_t at = 0;
    int64_t end_ns = 0;
    int64_t samples = GSP_NULL_I64;
    if (!gsp_daemon__sessions_parse_number(f[2], &at) || (uint64_t)at >= s->part_count ||
        !gsp_daemon__sessions_parse_number(f[3], &end_ns) || f[5].len != 1 ||
        !memchr(HOWS, f[5].p[0], sizeof(HOWS)))
        return;
    if (!gsp_daemon__sessions_parse_number(f[4], &samples))
        samples = GSP_NULL_I64;
    struct stacks_part *part = &s->parts[at];
    part->end_ns = end_ns;
    part->samples = samples;
    part->end = f[5].p[0];
    free(part->error);
    part->error = f[6].len ? gsp_sv_dup(f[6]) : NULL;
}

void gsp_daemon__sessions_replay_part(struct session *s, const struct gsp_sv *fields, size_t count)
{
    if (count != LINE_FIELDS)
        return;
    if (fields[0].p[0] == 'R')
        replay_begin(s, fields);
    else if (fields[0].p[0] == 'P')
        replay_end(s, fields);
}

size_t gsp_daemon__sessions_put_parts(struct gsp_buf *out, const struct session *s)
{
    size_t lines = 0;
    struct line line;
    for (size_t i = 0; i < s->part_count; i++) {
        make_begin(&line, s, &s->parts[i]);
        gsp_frames_journal_line(out, line.fields, line.count);
        lines++;
        if (s->parts[i].end == GSP_STACKS_RUN)
            continue;
        make_end(&line, s, &s->parts[i]);
        gsp_frames_journal_line(out, line.fields, line.count);
        lines++;
    }
    return lines;
}

/* The previous recording of the same process that lasts as long as the session, or NULL. */
static const struct stacks_part *part_before(const struct session *s, size_t at)
{
    for (size_t i = at; i-- > 0;) {
        const struct stacks_part *part = &s->parts[i];
        if (part->kept && part->file[0] && part->pid == s->parts[at].pid)
            return part;
    }
    return NULL;
}

/* The time between a recording and the previous one; -1: it is the first. */
static int64_t gap_before(const struct session *s, size_t at)
{
    const struct stacks_part *part = &s->parts[at];
    const struct stacks_part *before = part->kept && part->file[0] ? part_before(s, at) : NULL;
    if (!before)
        return -1;
    return part->start_ns > before->end_ns ? part->start_ns - before->end_ns : 0;
}

void gsp_daemon__sessions_sum_parts(const struct session *s, struct stacks_sums *out)
{
    *out = (struct stacks_sums){.failed = NULL};
    for (size_t i = 0; i < s->part_count; i++) {
        const struct stacks_part *part = &s->parts[i];
        const int64_t gap_ns = gap_before(s, i);
        out->files += part->file[0] != '\0';
        out->gaps += gap_ns >= 0;
        out->gap_ns += gap_ns > 0 ? gap_ns : 0;
        if (part->error && !out->failed)
            out->failed = part;
    }
}

static void put_time(struct gsp_json *json, const char *key, int64_t ns)
{
    char text[64];
    gsp_json_put_str(json, key, ns ? gsp_fmt_iso_time(ns, text, sizeof(text)) : NULL);
}

void gsp_daemon__sessions_parts_json(const struct session *s, struct gsp_json *json)
{
    gsp_json_arr_begin(json);
    for (size_t i = 0; i < s->part_count; i++) {
        const struct stacks_part *part = &s->parts[i];
        const int64_t gap_ns = gap_before(s, i);
        gsp_json_obj_begin(json);
        gsp_json_put_i64(json, "pid", part->pid);
        gsp_json_put_str(json, "file", part->file[0] ? part->file : NULL);
        put_time(json, "start_time", part->start_ns);
        put_time(json, "end_time", part->end_ns);
        gsp_json_put_bool(json, "is_active", part->end == GSP_STACKS_RUN);
        gsp_json_put_bool(json, "is_cut", part->end == GSP_STACKS_CUT);
        gsp_json_key(json, "samples");
        part->samples == GSP_NULL_I64 ? gsp_json_null(json) : gsp_json_i64(json, part->samples);
        gsp_json_key(json, "gap_before_s");
        gap_ns < 0 ? gsp_json_null(json) : gsp_json_fixed(json, gap_ns / GSP_NS_PER_MS, 3);
        gsp_json_put_str(json, "error", part->error);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static int begin_part(struct gsp_sessions *sessions, const struct gsp_stacks_begin *begin,
                      struct gsp_stacks_id *ticket, uint64_t *mark, struct gsp_err *err)
    GSP_REQUIRES(&sessions->lock)
{
    const uint32_t slot = gsp_daemon__sessions_by_name(sessions, begin->session);
    struct session *s = slot == SESSION_NONE ? NULL : sessions->slots[slot];
    struct line line;
    char state = 0;
    if (!s || s->state != SESSION_ACTIVE)
        return gsp_err_set(err, GSP_E_NOFILE, 0, "no active session '%.150s'", begin->session);
    struct stacks_part *part = add_part(s, gsp_sv_of(begin->file));
    if (!part)
        return gsp_err_nomem(err);
    part->pid = begin->pid;
    part->kept = begin->kept;
    part->start_ns = gsp_realtime_ns();
    if (!gsp_ring_process_start_time(begin->pid, &part->process_start, &state))
        part->process_start = 0;
    make_begin(&line, s, part);
    int rc = gsp_frames_journal_append(sessions->journal, line.fields, line.count, mark, err);
    if (rc < 0) {
        drop_last(s);
        return rc;
    }
    *ticket = (struct gsp_stacks_id){s->id, s->part_count - 1};
    return GSP_OK;
}

int gsp_daemon__sessions_stacks_begin(struct gsp_sessions *sessions,
                                      const struct gsp_stacks_begin *begin,
                                      struct gsp_stacks_id *ticket, struct gsp_err *err)
{
    uint64_t mark = 0;
    *ticket = (struct gsp_stacks_id){0, 0};
    gsp_lock_take(&sessions->lock);
    int rc = begin_part(sessions, begin, ticket, &mark, err);
    gsp_lock_release(&sessions->lock);
    return rc < 0 ? rc : gsp_frames_journal_sync(sessions->journal, mark, err);
}

static void end_part(struct gsp_sessions *sessions, const struct session *s,
                     struct stacks_part *part, const struct gsp_stacks_end *end)
    GSP_REQUIRES(&sessions->lock)
{
    struct line line;
    uint64_t mark = 0;
    part->end = (char)end->how;
    part->end_ns = end->end_ns;
    part->samples = end->samples;
    free(part->error);
    part->error = end->error[0] ? strdup(end->error) : NULL;
    make_end(&line, s, part);
    /* If this fails, the next daemon assumes that the recording was cut off. */
    gsp_ignore(gsp_frames_journal_append(sessions->journal, line.fields, line.count, &mark, NULL));
}

void gsp_daemon__sessions_stacks_end(struct gsp_sessions *sessions,
                                     const struct gsp_stacks_id *ticket,
                                     const struct gsp_stacks_end *end)
{
    if (!ticket->session_id)
        return;
    gsp_lock_take(&sessions->lock);
    for (size_t i = 0; i < sessions->slot_count; i++) {
        struct session *s = sessions->slots[i];
        if (s && s->id == ticket->session_id && ticket->part < s->part_count)
            end_part(sessions, s, &s->parts[ticket->part], end);
    }
    gsp_lock_release(&sessions->lock);
}

/* Ends the recordings of a killed daemon at the time of its last write. */
static void cut_parts(struct gsp_sessions *sessions, const struct session *s)
    GSP_REQUIRES(&sessions->lock)
{
    for (size_t i = 0; i < s->part_count; i++) {
        struct stacks_part *part = &s->parts[i];
        gsp_auto_buf path = {0};
        struct stat facts;
        struct gsp_stacks_end end = {
            .how = GSP_STACKS_CUT, .end_ns = part->start_ns, .samples = GSP_NULL_I64, .error = ""};
        if (part->end != GSP_STACKS_RUN)
            continue;
        gsp_daemon__sessions_path(sessions, part->file, &path);
        const char *text = gsp_buf_cstr(&path);
        if (!text || stat(text, &facts) < 0)
            end.error = "the file does not exist any more";
        else
            end.end_ns =
                (int64_t)facts.st_mtim.tv_sec * GSP_NS_PER_S + (int64_t)facts.st_mtim.tv_nsec;
        end_part(sessions, s, part, &end);
    }
}

void gsp_daemon__stacks_stem(const char *session_file, size_t pid_count, int32_t pid, char out[320])
{
    struct gsp_sv stem = gsp_sv_of(session_file);
    if (gsp_sv_ends(stem, ".json"))
        stem.len -= strlen(".json");
    if (pid_count == 1)
        snprintf(out, 320, "%.*s", (int)stem.len, stem.p);
    else
        snprintf(out, 320, "%.*s.%d", (int)stem.len, stem.p, pid);
}

/* Appends a struct gsp_stacks_unfinished for each recording of a session that has to continue. */
static void add_wanted(const struct session *s, struct gsp_buf *out)
{
    for (uint32_t i = 0; i < s->pid_count; i++) {
        const struct stacks_part *last = NULL;
        for (size_t k = 0; k < s->part_count; k++)
            if (s->parts[k].kept && s->parts[k].pid == s->pids[i])
                last = &s->parts[k];
        if (last && last->end == GSP_STACKS_ENDED)
            continue;
        struct gsp_stacks_unfinished wanted = {.pid = s->pids[i],
                                               .process_start = last ? last->process_start : 0,
                                               .rate_hz = s->stack_rate_hz,
                                               .native = s->stack_native};
        snprintf(wanted.session, sizeof(wanted.session), "%s", s->name);
        gsp_daemon__stacks_stem(s->file, s->pid_count, s->pids[i], wanted.stem);
        gsp_buf_put(out, &wanted, sizeof(wanted));
    }
}

int gsp_daemon__sessions_stacks_unfinished(struct gsp_sessions *sessions,
                                           struct gsp_stacks_unfinished **out, size_t *count,
                                           struct gsp_err *err)
{
    struct gsp_buf all = {0};
    *out = NULL;
    *count = 0;
    gsp_lock_take(&sessions->lock);
    for (size_t i = 0; i < sessions->slot_count; i++) {
        const struct session *s = sessions->slots[i];
        if (!s)
            continue;
        cut_parts(sessions, s);
        if (s->state == SESSION_ACTIVE && s->stacks)
            add_wanted(s, &all);
    }
    gsp_lock_release(&sessions->lock);
    if (all.failed) {
        gsp_buf_free(&all);
        return gsp_err_nomem(err);
    }
    *out = (struct gsp_stacks_unfinished *)(void *)all.p;
    *count = all.len / sizeof(**out);
    return GSP_OK;
}

void gsp_daemon__sessions_stacks_json(struct gsp_sessions *sessions, const char *name,
                                      struct gsp_json *json)
{
    static const struct session NO_SESSION = {.part_count = 0};
    gsp_lock_take(&sessions->lock);
    const uint32_t slot = gsp_daemon__sessions_by_name(sessions, name);
    gsp_daemon__sessions_parts_json(slot == SESSION_NONE ? &NO_SESSION : sessions->slots[slot],
                                    json);
    gsp_lock_release(&sessions->lock);
}

bool gsp_daemon__sessions_stacks_file(struct gsp_sessions *sessions, const char *name, int32_t pid,
                                      size_t number, char file[300])
{
    const struct stacks_part *found = NULL;
    gsp_lock_take(&sessions->lock);
    const uint32_t slot = gsp_daemon__sessions_by_name(sessions, name);
    const struct session *s = slot == SESSION_NONE ? NULL : sessions->slots[slot];
    for (size_t i = 0; s && i < s->part_count; i++) {
        const struct stacks_part *part = &s->parts[i];
        if (part->file[0] && (!pid || part->pid == pid) && (!number || number == i + 1))
            found = part;
    }
    if (found)
        snprintf(file, 300, "%s", found->file);
    gsp_lock_release(&sessions->lock);
    return found != NULL;
}
