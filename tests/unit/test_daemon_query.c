/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "daemon/query_input.h"
#include "daemon_fixture.h"
#include "http/body.h"
#include "store_query.h"
#include "tap.h"

/* A frame log and the facts about it. */
struct log {
    char folder[64];
    struct gsp_frame_log *frames;
    struct made made;
};

static void open_log(struct log *log)
{
    *log = (struct log){.made = {.cpu_only = true}};
    made_folder(log->folder);
    const struct gsp_frame_log_options options = {.folder = log->folder, .host = "here"};
    tap_require(gsp_frames_log_open(&options, &log->frames, NULL) == GSP_OK);
}

static void add_frames(struct log *log, int n)
{
    for (int i = 0; i < n; i++)
        tap_require(made_frame(log->frames, &log->made, NULL) == GSP_OK);
}

static void close_log(struct log *log)
{
    gsp_frames_log_close(log->frames);
    made_remove(log->folder);
}

static struct gsp_session session(const char *name, uint64_t first, uint64_t last)
{
    struct gsp_session s = {.active = last == UINT64_MAX,
                            .start_ns = 5000 + (int64_t)first,
                            .end_ns = last == UINT64_MAX ? 0 : 9000,
                            .first_frame = first,
                            .last_frame = last == UINT64_MAX ? 0 : last,
                            .period_ns = 200 * GSP_NS_PER_MS};
    snprintf(s.name, sizeof(s.name), "%s", name);
    snprintf(s.file, sizeof(s.file), "%s.json", name);
    return s;
}

/* A store like that of a query worker. */
static struct gsp_store *open_query_store(struct log *log, const struct gsp_session *sessions,
                                          size_t count)
{
    static struct gsp_err trouble;
    struct gsp_frame_log_range *stretches = NULL;
    struct gsp_body *body = NULL;
    gsp_auto_buf text = {0};
    struct gsp_query_input facts = {
        .host = "here", .state_dir = log->folder, .sessions = sessions, .session_count = count};
    tap_require(gsp_frames_log_ranges(log->frames, &stretches, &facts.stretch_count, NULL) ==
                GSP_OK);
    facts.stretches = stretches;
    gsp_daemon__query_input_write(&facts, &text);
    free(stretches);
    tap_require(gsp_http_body_read(gsp_buf_sv(&text), &body, NULL) == GSP_OK);
    struct gsp_store *store = open_store(NULL);
    trouble = (struct gsp_err){0};
    tap_require(gsp_daemon__query_input_add(body, store, &trouble, NULL) == GSP_OK);
    gsp_http_body_free(body);
    lock_store(store);
    return store;
}

TAP_TEST(every_value_of_every_frame)
{
    struct log log;
    gsp_auto_buf out = {0};
    open_log(&log);
    add_frames(&log, 40);
    log.made.gpus = 1; /* a new metric: a new segment */
    add_frames(&log, 60);
    struct gsp_store *store = open_query_store(&log, NULL, 0);
    tap_eq_str(query(store,
                     "SELECT count(DISTINCT frame_id), min(frame_id), max(frame_id), min(host), "
                     "count(sessions) FROM session.frame",
                     &out),
               "100,1,100,here,0");
    tap_eq_str(query(store,
                     "SELECT ts_ns, device, value FROM session.frame WHERE frame_id = 100 AND "
                     "metric = 'system.cpu.util_percent' ORDER BY device NULLS FIRST LIMIT 1",
                     &out),
               "1700000019800000000,NULL,36.63");
    tap_eq_str(query(store,
                     "SELECT min(frame_id), count(*), max(value) FROM session.frame WHERE "
                     "metric LIKE 'gpu%power_watts'",
                     &out),
               "41,60,100");
    /* Frames that are added later are not part of the query. */
    add_frames(&log, 10);
    tap_eq_str(query(store, "SELECT max(frame_id) FROM session.frame", &out), "100");
    gsp_store_close(store);
    store = open_query_store(&log, NULL, 0);
    tap_eq_str(query(store, "SELECT max(frame_id) FROM session.frame", &out), "110");
    gsp_store_close(store);
    close_log(&log);
}

TAP_TEST(frames_have_their_sessions)
{
    struct log log;
    gsp_auto_buf out = {0};
    struct gsp_session sessions[] = {session("on", 21, UINT64_MAX), session("none", 15, 0),
                                     session("a \"b\"", 5, 30)};
    sessions[2].labels = gsp_sv_of("{\"lr\": [1, \"x\"]}");
    sessions[2].period_ns = 0;
    sessions[2].failed = true;
    open_log(&log);
    add_frames(&log, 40);
    struct gsp_store *store = open_query_store(&log, sessions, 3);
    tap_eq_str(query(store,
                     "SELECT sessions, min(frame_id) AS f, max(frame_id) FROM session.frame "
                     "GROUP BY sessions ORDER BY f",
                     &out),
               "NULL,1,4;[\"a \\\"b\\\"\"],5,20;[\"on\",\"a \\\"b\\\"\"],21,30;[\"on\"],31,40");
    tap_eq_str(query(store,
                     "SELECT name, status, end_ns, freq_ms, labels, first_frame, last_frame "
                     "FROM session.list ORDER BY first_frame",
                     &out),
               "a \"b\",failed,9000,NULL,{\"lr\": [1, \"x\"]},5,30;"
               "none,done,9000,200,NULL,15,14;on,active,NULL,200,NULL,21,NULL");
    tap_eq_str(query(store,
                     "SELECT count(DISTINCT frame_id) FROM gsprof.session_frames('on') UNION ALL "
                     "SELECT count(*) FROM gsprof.session_frames('none')",
                     &out),
               "20;0");
    gsp_store_close(store);
    close_log(&log);
}

/* Only the newest sessions are named in a frame; session.list has all. */
TAP_TEST(many_sessions_of_one_frame)
{
    enum { MANY = 1000 };
    struct log log;
    gsp_auto_buf out = {0};
    struct gsp_session *sessions = calloc(MANY, sizeof(*sessions));
    tap_require(sessions != NULL);
    for (size_t i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof(name), "s%zu", MANY - 1 - i);
        sessions[i] = session(name, (MANY - i) / 100 + 1, UINT64_MAX);
    }
    open_log(&log);
    add_frames(&log, 20);
    struct gsp_store *store = open_query_store(&log, sessions, MANY);
    tap_eq_str(query(store,
                     "SELECT count(DISTINCT sessions), max(len(string_split(sessions, ','))), "
                     "bool_or(sessions LIKE '[\"s999\",%') FROM session.frame",
                     &out),
               "11,32,true");
    tap_eq_str(query(store,
                     "SELECT count(*) FROM session.list AS s, "
                     "(SELECT DISTINCT frame_id FROM session.frame) AS f "
                     "WHERE f.frame_id = 20 AND f.frame_id >= s.first_frame",
                     &out),
               "1000");
    gsp_store_close(store);
    free(sessions);
    close_log(&log);
}

static void damage(const struct log *log, off_t from_end)
{
    char path[128];
    const uint64_t wrong = UINT64_MAX;
    snprintf(path, sizeof(path), "%s/frames", log->folder);
    DIR *dir = opendir(path);
    tap_require(dir != NULL);
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (!strstr(e->d_name, ".num"))
            continue;
        int fd = openat(dirfd(dir), e->d_name, O_RDWR | O_CLOEXEC);
        tap_require(fd >= 0);
        tap_require(pwrite(fd, &wrong, sizeof(wrong), lseek(fd, 0, SEEK_END) - from_end) ==
                    (ssize_t)sizeof(wrong));
        close(fd);
    }
    closedir(dir);
}

TAP_TEST(damaged_rows_are_null)
{
    struct log log;
    gsp_auto_buf out = {0};
    open_log(&log);
    add_frames(&log, 5);
    struct gsp_store *store = open_query_store(&log, NULL, 0);
    int64_t metrics = 0;
    tap_require(gsp_parse_i64(query(store, "SELECT count(*) // 5 FROM session.frame", &out), 1,
                              1000, &metrics, NULL) == GSP_OK);
    gsp_store_close(store);
    damage(&log, (off_t)(metrics * (int64_t)sizeof(double) + 48));
    store = open_query_store(&log, NULL, 0);
    tap_eq_str(
        query(store,
              "SELECT frame_id, count(value), count(ts_ns) FROM session.frame "
              "WHERE frame_id >= 4 AND metric = 'system.cpu.util_percent' AND device IS NULL "
              "GROUP BY frame_id ORDER BY frame_id",
              &out),
        "4,1,1;5,0,0");
    gsp_store_close(store);
    close_log(&log);
}

TAP_TEST(missing_log_is_an_error)
{
    struct log log;
    gsp_auto_buf out = {0};
    open_log(&log);
    add_frames(&log, 5);
    char folder[64];
    memcpy(folder, log.folder, sizeof(folder));
    snprintf(log.folder, sizeof(log.folder), "/no/such/folder");
    struct gsp_store *store = open_query_store(&log, NULL, 0);
    tap_check(strstr(query(store, "SELECT count(*) FROM session.frame", &out),
                     "! IO cannot read the frame log") != NULL);
    tap_eq_str(query(store, "SELECT count(*) FROM session.list", &out), "0");
    gsp_store_close(store);
    memcpy(log.folder, folder, sizeof(folder));
    close_log(&log);
}

TAP_MAIN()
