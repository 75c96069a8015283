/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_load -- puts load on the frame log and its sessions, without a daemon.
 *
 *   session_load day FOLDER FRAMES            records FRAMES metric frames at 5 Hz in a session
 *   session_load many FOLDER SESSIONS FRAMES  records metric frames while SESSIONS are active
 *   session_load kills FOLDER ROUNDS          kills the process ROUNDS times
 *
 * Prints one JSON object.
 */
#include <string.h>

#include "base/json.h"
#include "daemon_kills.h"

#define TEND_FRAMES 5 /* once a second */

struct load {
    char state[512];
    char output[512];
    struct gsp_frame_log *frames;
    struct gsp_sessions *sessions;
    struct made made;
};

static int fail(const char *what, const struct gsp_err *err)
{
    fprintf(stderr, "session_load: %s: %s\n", what, err->msg);
    return 1;
}

static int open_load(struct load *load, const char *folder, struct gsp_err *err)
{
    snprintf(load->state, sizeof(load->state), "%s/state", folder);
    snprintf(load->output, sizeof(load->output), "%s/out", folder);
    mkdir(load->output, 0700);
    struct gsp_frame_log_options frames = {.folder = load->state, .host = "here"};
    struct gsp_sessions_options options = {
        .state_folder = load->state, .output_folder = load->output, .host = "here"};
    int rc = gsp_frames_log_open(&frames, &load->frames, err);
    if (rc == 0)
        rc = gsp_daemon__sessions_open(&options, load->frames, &load->sessions, err);
    if (rc == 0)
        gsp_frames_log_set_period(load->frames, MADE_PERIOD_NS);
    return rc;
}

static void close_load(struct load *load)
{
    gsp_daemon__sessions_close(load->sessions);
    gsp_frames_log_close(load->frames);
}

/* Returns a value of /proc/self/status in bytes. */
static uint64_t memory(const char *key)
{
    gsp_auto_buf text = {0};
    if (gsp_file_read("/proc/self/status", 1U << 16, &text, NULL) != 0 || !gsp_buf_cstr(&text))
        return 0;
    const char *at = strstr(text.p, key);
    return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

/* Resets VmHWM, so that it is the peak from now on. */
static void reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "5", 1) != 1)
        fprintf(stderr, "session_load: cannot reset the memory peak\n");
    gsp_fd_close(&fd);
}

static void put(struct gsp_json *json, const char *key, double v)
{
    gsp_json_key(json, key);
    gsp_json_f64(json, v);
}

static int add_frames(struct load *load, uint64_t n, struct gsp_err *err)
{
    int rc = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        rc = made_frame(load->frames, &load->made, err);
        if (i % TEND_FRAMES == 0)
            gsp_daemon__sessions_maintain(load->sessions, MADE_START_NS);
    }
    return rc;
}

static int day(const char *folder, uint64_t frames, struct gsp_json *json, struct gsp_err *err)
{
    struct load load = {.made = {.processes = 2}};
    struct gsp_session got = {0};
    struct gsp_session_start start = {.name = "day"};
    int rc = open_load(&load, folder, err);
    if (rc == 0)
        rc = gsp_daemon__sessions_start(load.sessions, &start, &got, err);
    int64_t begin = gsp_now_ns();
    int64_t cpu = gsp_cputime_ns();
    if (rc == 0)
        rc = add_frames(&load, frames, err);
    put(json, "frame_us", (double)(gsp_now_ns() - begin) / 1e3 / (double)frames);
    put(json, "frame_cpu_us", (double)(gsp_cputime_ns() - cpu) / 1e3 / (double)frames);
    /* In a day of real time, all but the last seconds would be on disk already. */
    if (rc == 0)
        rc = gsp_frames_log_sync(load.frames, err);
    uint64_t before = memory("VmRSS:");
    reset_peak();
    begin = gsp_now_ns();
    cpu = gsp_cputime_ns();
    if (rc == 0)
        rc = gsp_daemon__sessions_stop(load.sessions, "day", &got, err);
    put(json, "stop_s", (double)(gsp_now_ns() - begin) / 1e9);
    put(json, "stop_cpu_s", (double)(gsp_cputime_ns() - cpu) / 1e9);
    put(json, "extra_mb", ((double)memory("VmHWM:") - (double)before) / 1e6);
    put(json, "frames", (double)got.frame_count);
    struct gsp_frame_log_status status;
    char path[1024];
    struct stat st = {0};
    if (rc == 0) {
        gsp_frames_log_status(load.frames, &status);
        put(json, "log_mb", (double)status.bytes / 1e6);
        snprintf(path, sizeof(path), "%s/%s", load.output, got.file);
        put(json, "file_mb", stat(path, &st) == 0 ? (double)st.st_size / 1e6 : 0);
    }
    close_load(&load);
    return rc;
}

/* Starts sessions from many threads at once, so that they share waits for the disk. */
#define STARTERS 64
struct starter {
    struct gsp_sessions *sessions;
    uint64_t from;
    uint64_t to;
};

static void *start_many(void *ctx)
{
    const struct starter *starter = ctx;
    for (uint64_t i = starter->from; i < starter->to; i++) {
        char name[48];
        struct gsp_session got;
        struct gsp_err err = {0};
        snprintf(name, sizeof(name), "session number %" PRIu64, i);
        struct gsp_session_start start = {.name = name};
        if (gsp_daemon__sessions_start(starter->sessions, &start, &got, &err) != 0)
            fprintf(stderr, "session_load: %s\n", err.msg);
    }
    return NULL;
}

static int many(const char *folder, const uint64_t counts[2], struct gsp_json *json,
                struct gsp_err *err)
{
    struct load load = {.made = {.processes = 2}};
    int rc = open_load(&load, folder, err);
    if (rc)
        return rc;
    int64_t begin = gsp_now_ns();
    pthread_t threads[STARTERS];
    struct starter starters[STARTERS];
    for (uint64_t i = 0; i < STARTERS; i++) {
        starters[i] = (struct starter){load.sessions, counts[0] * i / STARTERS,
                                       counts[0] * (i + 1) / STARTERS};
        if (pthread_create(&threads[i], NULL, start_many, &starters[i]) != 0)
            return gsp_err_set(err, GSP_E_NOMEM, 0, "cannot create a thread");
    }
    for (size_t i = 0; i < STARTERS; i++)
        pthread_join(threads[i], NULL);
    put(json, "start_us", (double)(gsp_now_ns() - begin) / 1e3 / (double)counts[0]);
    put(json, "active", (double)gsp_daemon__sessions_active_count(load.sessions));
    put(json, "started_rss_mb", (double)memory("VmRSS:") / 1e6);
    rc = add_frames(&load, counts[1] / 10, err); /* to allocate memory that is needed once */
    uint64_t rss = memory("VmRSS:");
    int64_t cpu = gsp_cputime_ns();
    if (rc == 0)
        rc = add_frames(&load, counts[1], err);
    put(json, "frame_cpu_us", (double)(gsp_cputime_ns() - cpu) / 1e3 / (double)counts[1]);
    put(json, "frame_rss_bytes", ((double)memory("VmRSS:") - (double)rss) / (double)counts[1]);
    put(json, "rss_mb", (double)memory("VmRSS:") / 1e6);
    begin = gsp_cputime_ns();
    gsp_daemon__sessions_maintain(load.sessions, MADE_START_NS);
    put(json, "tend_cpu_us", (double)(gsp_cputime_ns() - begin) / 1e3);
    close_load(&load);
    return rc;
}

static int kills(const char *folder, uint64_t rounds, struct gsp_json *json)
{
    struct kills_result result = daemon_kills(folder, (unsigned)rounds, (unsigned)gsp_now_ns());
    put(json, "kills", result.rounds);
    put(json, "frames", (double)result.frames);
    put(json, "started", (double)result.started);
    put(json, "stopped", (double)result.stopped);
    put(json, "restarts", (double)result.restarts);
    put(json, "wrong", (double)result.wrong);
    return 0;
}

int main(int argc, char **argv)
{
    struct gsp_err err = {0};
    if (argc < 4) {
        fprintf(stderr, "usage: session_load day|many|kills FOLDER NUMBER...\n");
        return 64;
    }
    uint64_t counts[2] = {strtoull(argv[3], NULL, 10), argc > 4 ? strtoull(argv[4], NULL, 10) : 1};
    gsp_auto_buf out = {0};
    struct gsp_json json;
    gsp_json_init(&json, &out);
    gsp_json_obj_begin(&json);
    int rc = 0;
    if (strcmp(argv[1], "day") == 0)
        rc = day(argv[2], counts[0], &json, &err);
    else if (strcmp(argv[1], "many") == 0)
        rc = many(argv[2], counts, &json, &err);
    else
        rc = kills(argv[2], counts[0], &json);
    gsp_json_obj_end(&json);
    if (rc)
        return fail(argv[1], &err);
    printf("%s\n", gsp_buf_cstr(&out));
    return 0;
}
