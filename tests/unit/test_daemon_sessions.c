/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "daemon/sessions_stacks.h"
#include "daemon_fixture.h"
#include "daemon_kills.h"
#include "frames/session_format.h"
#include "frames/session_write.h"
#include "tap.h"

/* The state of a daemon without the daemon. */
struct state {
    char folder[64];
    char state[96];
    char output[96];
    struct gsp_frame_log *frames;
    struct gsp_sessions *sessions;
    struct made made;
};

static void open_state(struct state *state)
{
    struct gsp_err err = {0};
    struct gsp_frame_log_options frames = {.folder = state->state, .host = "here"};
    struct gsp_sessions_options options = {
        .state_folder = state->state, .output_folder = state->output, .host = "here"};
    int rc = gsp_frames_log_open(&frames, &state->frames, &err);
    if (rc == 0)
        rc = gsp_daemon__sessions_open(&options, state->frames, &state->sessions, &err);
    if (rc)
        printf("# %s\n", err.msg);
    tap_require(rc == 0);
    gsp_frames_log_set_period(state->frames, MADE_PERIOD_NS);
}

static struct state *new_state(void)
{
    static struct state state;
    made_folder(state.folder);
    snprintf(state.state, sizeof(state.state), "%s/state", state.folder);
    snprintf(state.output, sizeof(state.output), "%s/out", state.folder);
    tap_require(mkdir(state.output, 0700) == 0);
    open_state(&state);
    return &state;
}

static void close_state(struct state *state)
{
    gsp_daemon__sessions_close(state->sessions);
    gsp_frames_log_close(state->frames);
    state->sessions = NULL;
    state->frames = NULL;
}

static void end_state(struct state *state)
{
    close_state(state);
    made_remove(state->folder);
}

static void add_frames(struct state *state, int n)
{
    for (int i = 0; i < n; i++)
        tap_require(made_frame(state->frames, &state->made, NULL) == 0);
}

static int start(struct state *state, const char *name, struct gsp_session *out)
{
    struct gsp_session scratch;
    struct gsp_err err = {0};
    int rc = gsp_daemon__sessions_start(state->sessions, &(struct gsp_session_start){.name = name},
                                        out ? out : &scratch, &err);
    if (rc)
        printf("# %s\n", err.msg);
    return rc;
}

static int stop(struct state *state, const char *name, struct gsp_session *out)
{
    struct gsp_session scratch;
    struct gsp_err err = {0};
    int rc = gsp_daemon__sessions_stop(state->sessions, name, out ? out : &scratch, &err);
    if (rc)
        printf("# %s\n", err.msg);
    return rc;
}

/* Reads a file and checks that it is JSON. The caller frees the text. */
static char *read_output(const struct state *state, const char *file)
{
    char path[512];
    struct gsp_buf text = {0};
    snprintf(path, sizeof(path), "%s/%s", state->output, file);
    if (gsp_file_read(path, 1U << 30, &text, NULL) != 0) {
        printf("# no file %s\n", file);
        exit(TAP_EXIT_FAILED);
    }
    tap_check(gsp_frames_session_labels_are_valid(gsp_buf_sv(&text)));
    tap_require(gsp_buf_cstr(&text) != NULL);
    return text.p;
}

static uint64_t count_frames(const char *text)
{
    uint64_t n = 0;
    for (const char *p = text; (p = strstr(p, "\"frame_id\":")) != NULL; p++)
        tap_check(strtoull(p + 11, NULL, 10) == ++n);
    return n;
}

static bool has(const char *text, const char *part)
{
    if (strstr(text, part))
        return true;
    printf("# not found: %s\n", part);
    return false;
}

TAP_TEST(names)
{
    static const char *const GOOD[] = {"a",
                                       "training epoch 1",
                                       "\xf0\x9f\x98\x80",
                                       "x..",
                                       "a.json",
                                       "\xc3\xa9t\xc3\xa9",
                                       "-",
                                       "_",
                                       "CON"};
    static const char *const BAD[] = {"",     ".",    "..",    ".x",   "a/b",      "/",
                                      "../x", "a\nb", "a\x7f", "\xff", "\xc2\x85", "\xed\xa0\x80"};
    for (size_t i = 0; i < GSP_COUNT(GOOD); i++)
        tap_eq_int(gsp_daemon__session_name_check(gsp_sv_of(GOOD[i]), NULL), 0);
    struct gsp_err err;
    for (size_t i = 0; i < GSP_COUNT(BAD); i++)
        tap_eq_int(gsp_daemon__session_name_check(gsp_sv_of(BAD[i]), &err), GSP_E_USAGE);
    tap_eq_int(gsp_daemon__session_name_check((struct gsp_sv){"a\0b", 3}, NULL), GSP_E_USAGE);
    static char big[10241];
    memset(big, 'x', sizeof(big) - 1);
    tap_eq_int(gsp_daemon__session_name_check(gsp_sv_of(big), NULL), GSP_E_USAGE);
    tap_eq_int(gsp_daemon__session_name_check((struct gsp_sv){big, 200}, NULL), 0);
}

TAP_TEST(labels)
{
    static const char *const GOOD[] = {
        "{}", " { } ", "{\"a\":1}", "{\"a\":[1,-2.5e+3,null,true,false,{\"b\":\"\\u00e9\\n\"}]}"};
    static const char *const BAD[] = {
        "[]",         "1",           "{",     "{\"a\"}",        "{\"a\":}",         "{a:1}",
        "{\"a\":1,}", "{\"a\":01}",  "{} {}", "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}", "{\"a\":NaN}",
        "{\"a\":1.}", "{\"\\x\":1}", ""};
    for (size_t i = 0; i < GSP_COUNT(GOOD); i++)
        tap_check(gsp_frames_session_labels_are_valid(gsp_sv_of(GOOD[i])));
    for (size_t i = 0; i < GSP_COUNT(BAD); i++)
        tap_check(!gsp_frames_session_labels_are_valid(gsp_sv_of(BAD[i])));
    static char deep[100000];
    snprintf(deep, sizeof(deep), "{\"a\":");
    memset(deep + strlen(deep), '[', sizeof(deep) - 100);
    tap_check(!gsp_frames_session_labels_are_valid(gsp_sv_of(deep)));
}

TAP_TEST(session_file_has_its_frames)
{
    struct state *state = new_state();
    state->made.gpus = 1;
    struct gsp_session s;
    struct gsp_session_start with = {.name = "a",
                                     .labels = gsp_sv_of("{\"run\":\"x\",\n\"n\":[1,2]}"),
                                     .pids = (const int32_t[]){7, 5, 7},
                                     .pid_count = 3,
                                     .stacks = true};
    add_frames(state, 10);
    tap_eq_int(gsp_daemon__sessions_start(state->sessions, &with, &s, NULL), 0);
    tap_check(s.active && s.stacks);
    tap_eq_int(s.first_frame, 11);
    tap_eq_str(s.file, "a.json");
    add_frames(state, 5);
    tap_eq_int(start(state, "b", NULL), 0);
    add_frames(state, 5);
    tap_eq_int(gsp_daemon__sessions_active_count(state->sessions), 2);
    tap_eq_int(gsp_daemon__sessions_find(state->sessions, "a", &s, NULL), 0);
    tap_eq_int(s.frame_count, 10);
    int32_t *pids = NULL;
    size_t n = 0;
    tap_eq_int(gsp_daemon__sessions_pids(state->sessions, &pids, &n, NULL), 0);
    tap_check(n == 2 && pids[0] == 5 && pids[1] == 7);
    free(pids);
    tap_eq_int(stop(state, "a", &s), 0);
    tap_check(!s.active && !s.failed && s.end_ns >= s.start_ns);
    tap_check(s.first_frame == 11 && s.last_frame == 20 && s.frame_count == 10);
    add_frames(state, 3);
    tap_eq_int(stop(state, "b", &s), 0);
    tap_eq_int(s.frame_count, 8);
    char *text = read_output(state, "a.json");
    tap_eq_int(count_frames(text), 10);
    tap_check(has(text, "{\"metadata\":{\"name\":\"a\",\"host\":\"here\",\"start_time\":\""));
    tap_check(has(text, "\"frequency_ms\":200,"));
    tap_check(has(text, "\"labels\":{\"run\":\"x\",\n\"n\":[1,2]},\"pids\":[7,5,7],"));
    tap_check(has(text, "\"first_frame\":11,\"last_frame\":20,\"frame_count\":10}"));
    tap_check(
        has(text, "\"summary_by_device\":{\"here:0:STAND-IN \\\"X\\\"\":{\"avg_gpu_util\":14.5,"));
    tap_check(has(text, "\"avg_gpu_memory\":25"));
    tap_check(has(text, "\"summary_by_client\":{\"here\":{\"avg_dram_util\":1.45,"));
    tap_check(has(text, "\"losses\":{\"frames_lost\":0,"));
    free(text);
    tap_eq_int(stop(state, "a", NULL), GSP_E_NOFILE);
    tap_eq_int(stop(state, "zzz", NULL), GSP_E_NOFILE);
    end_state(state);
}

TAP_TEST(session_without_frames_has_a_file)
{
    struct state *state = new_state();
    struct gsp_session s;
    tap_eq_int(start(state, "none", NULL), 0);
    tap_eq_int(stop(state, "none", &s), 0);
    tap_eq_int(s.frame_count, 0);
    char *text = read_output(state, "none.json");
    tap_check(has(text, "\"first_frame\":null,\"last_frame\":null,\"frame_count\":0}"));
    free(text);
    end_state(state);
}

TAP_TEST(names_can_be_reused)
{
    struct state *state = new_state();
    struct gsp_session s;
    add_frames(state, 2);
    tap_eq_int(start(state, "a", NULL), 0);
    tap_eq_int(start(state, "a", NULL), GSP_E_EXISTS);
    tap_eq_int(stop(state, "a", NULL), 0);
    tap_eq_int(start(state, "a", &s), 0);
    tap_eq_str(s.file, "a_2.json");
    tap_eq_int(start(state, "a_2", &s), 0); /* its file would have the same name */
    tap_eq_str(s.file, "a_2_2.json");
    tap_eq_int(stop(state, "a", NULL), 0);
    tap_eq_int(start(state, "a", &s), 0);
    tap_eq_str(s.file, "a_3.json");
    tap_eq_int(stop(state, "a", NULL), 0);
    gsp_daemon__sessions_maintain(state->sessions, gsp_realtime_ns());
    struct gsp_session *list = NULL;
    size_t n = 0;
    tap_eq_int(gsp_daemon__sessions_list(state->sessions, &list, &n, NULL), 0);
    tap_eq_int(n, 4);
    tap_eq_str(list[0].name, "a_2"); /* active sessions first */
    free(list);
    /* With force, a.json is overwritten, and its old session is deleted. */
    struct gsp_session_start force = {.name = "a", .force = true};
    tap_eq_int(gsp_daemon__sessions_start(state->sessions, &force, &s, NULL), 0);
    tap_eq_str(s.file, "a.json");
    add_frames(state, 3);
    tap_eq_int(stop(state, "a", &s), 0);
    char *text = read_output(state, "a.json");
    tap_eq_int(count_frames(text), 3);
    free(text);
    tap_eq_int(gsp_daemon__sessions_list(state->sessions, &list, &n, NULL), 0);
    tap_eq_int(n, 4);
    free(list);
    /* The file of another program is not overwritten, even if it appears during the session. */
    char path[256];
    snprintf(path, sizeof(path), "%s/x.json", state->output);
    tap_eq_int(start(state, "x", &s), 0);
    tap_eq_str(s.file, "x.json");
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    tap_require(fd >= 0 && write(fd, "{}", 2) == 2);
    close(fd);
    tap_eq_int(stop(state, "x", &s), 0);
    tap_eq_str(s.file, "x_2.json");
    text = read_output(state, "x.json");
    tap_eq_str(text, "{}");
    free(text);
    end_state(state);
}

TAP_TEST(unnamed_sessions_get_names)
{
    struct state *state = new_state();
    struct gsp_session a;
    struct gsp_session b;
    tap_eq_int(start(state, NULL, &a), 0);
    tap_eq_int(start(state, NULL, &b), 0);
    tap_check(strncmp(a.name, "profiling_", 10) == 0);
    tap_check(strcmp(a.name, b.name) != 0);
    end_state(state);
}

TAP_TEST(restart_after_kill)
{
    struct state *state = new_state();
    struct gsp_session s;
    add_frames(state, 3);
    struct gsp_session_start with = {.name = "tab\\ \xc3\xa9",
                                     .labels = gsp_sv_of("{\"a\":\"b\\tc\"}"),
                                     .pids = (const int32_t[]){42},
                                     .pid_count = 1,
                                     .stacks = true};
    tap_eq_int(gsp_daemon__sessions_start(state->sessions, &with, &s, NULL), 0);
    tap_eq_int(start(state, "done", NULL), 0);
    tap_eq_int(start(state, "gone", NULL), 0);
    add_frames(state, 4);
    tap_eq_int(stop(state, "done", NULL), 0);
    tap_eq_int(gsp_daemon__sessions_delete(state->sessions, "gone", NULL), 0);
    close_state(state); /* has the same effect on the files as a kill */
    state->made.step_ns = 100 * GSP_NS_PER_S;
    open_state(state);
    tap_eq_int(gsp_daemon__sessions_active_count(state->sessions), 1);
    tap_eq_int(gsp_daemon__sessions_find(state->sessions, "gone", &s, NULL), GSP_E_NOFILE);
    tap_eq_int(gsp_daemon__sessions_find(state->sessions, "done", &s, NULL), 0);
    tap_check(!s.active && s.frame_count == 4);
    tap_eq_int(gsp_daemon__sessions_find(state->sessions, "tab\\ \xc3\xa9", &s, NULL), 0);
    tap_check(s.active && s.stacks && s.first_frame == 4);
    add_frames(state, 2);
    gsp_daemon__sessions_maintain(state->sessions, gsp_realtime_ns());
    tap_eq_int(stop(state, "tab\\ \xc3\xa9", &s), 0);
    tap_eq_int(s.frame_count, 6);
    char *text = read_output(state, s.file);
    tap_eq_int(count_frames(text), 6);
    tap_check(has(text, "\"labels\":{\"a\":\"b\\tc\"},\"pids\":[42],"));
    tap_check(has(text, "\"gaps\":[{\"after_frame\":4,"));
    tap_check(has(text, "\"cause\":\"restart\""));
    free(text);
    gsp_daemon__sessions_maintain(state->sessions, gsp_realtime_ns());
    close_state(state);
    open_state(state);
    tap_eq_int(gsp_daemon__sessions_find(state->sessions, "done", &s, NULL), 0);
    tap_eq_int(s.frame_count, 4);
    end_state(state);
}

TAP_TEST(state_folder_is_locked)
{
    struct state *state = new_state();
    struct gsp_sessions *other = NULL;
    struct gsp_err err = {0};
    struct gsp_sessions_options options = {
        .state_folder = state->state, .output_folder = state->output, .host = "here"};
    tap_eq_int(gsp_daemon__sessions_open(&options, state->frames, &other, &err), GSP_E_EXISTS);
    printf("# %s\n", err.msg);
    tap_check(other == NULL);
    end_state(state);
}

TAP_TEST(journal_of_another_version_is_rejected)
{
    struct state *state = new_state();
    close_state(state);
    char path[256];
    snprintf(path, sizeof(path), "%s/sessions.journal", state->state);
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    tap_require(fd >= 0 && write(fd, "gsprof-journal 9\n", 17) == 17);
    close(fd);
    struct gsp_frame_log_options frames = {.folder = state->state, .host = "here"};
    struct gsp_sessions_options options = {
        .state_folder = state->state, .output_folder = state->output, .host = "here"};
    tap_require(gsp_frames_log_open(&frames, &state->frames, NULL) == 0);
    tap_eq_int(gsp_daemon__sessions_open(&options, state->frames, &state->sessions, NULL),
               GSP_E_FORMAT);
    end_state(state);
}

TAP_TEST(journal_truncated_at_every_length)
{
    struct state *state = new_state();
    char path[256];
    struct gsp_buf whole = {0};
    add_frames(state, 1);
    tap_eq_int(start(state, "one", NULL), 0);
    tap_eq_int(start(state, "two", NULL), 0);
    tap_eq_int(stop(state, "one", NULL), 0);
    gsp_daemon__sessions_maintain(state->sessions, gsp_realtime_ns());
    close_state(state);
    snprintf(path, sizeof(path), "%s/sessions.journal", state->state);
    tap_require(gsp_file_read(path, 1U << 20, &whole, NULL) == 0);
    size_t before = 0;
    for (size_t cut = 0; cut <= whole.len; cut++) {
        int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
        tap_require(fd >= 0 && write(fd, whole.p, cut) == (ssize_t)cut);
        close(fd);
        open_state(state);
        struct gsp_session *list = NULL;
        size_t n = 0;
        tap_eq_int(gsp_daemon__sessions_list(state->sessions, &list, &n, NULL), 0);
        tap_check(n >= before && n <= 2);
        before = n;
        free(list);
        char name[32];
        snprintf(name, sizeof(name), "new%zu", cut);
        tap_eq_int(start(state, name, NULL), 0);
        close_state(state);
        open_state(state); /* the new line is separate from the truncated one */
        struct gsp_session s;
        tap_eq_int(gsp_daemon__sessions_find(state->sessions, name, &s, NULL), 0);
        close_state(state);
    }
    tap_eq_int(before, 2);
    gsp_buf_free(&whole);
    open_state(state);
    end_state(state);
}

static void note_ended(void *ctx, const struct gsp_session *all, size_t count)
{
    struct gsp_session *first = ctx;
    *first = all[0];
    for (size_t i = 0; i < count; i++)
        tap_check(!all[i].active && all[i].end_ns == all[0].end_ns);
}

TAP_TEST(stop_all)
{
    struct state *state = new_state();
    struct gsp_session *all = NULL;
    struct gsp_session last = {0};
    struct gsp_err err = {0};
    size_t count = 7;
    const struct gsp_sessions_ended ended = {note_ended, &last};
    tap_eq_int(gsp_daemon__sessions_stop_all(state->sessions, &ended, &all, &count, &err), 0);
    tap_check(count == 0 && last.end_ns == 0);
    free(all);
    tap_eq_int(start(state, "done", NULL), 0);
    tap_eq_int(stop(state, "done", NULL), 0);
    tap_eq_int(start(state, "a", NULL), 0);
    add_frames(state, 3);
    tap_eq_int(start(state, "b", NULL), 0);
    add_frames(state, 2);
    tap_eq_int(gsp_daemon__sessions_first_frame(state->sessions, "a"), 1);
    tap_eq_int(gsp_daemon__sessions_first_frame(state->sessions, NULL), 4);
    tap_eq_int(gsp_daemon__sessions_first_frame(state->sessions, "done"), 0);
    tap_eq_int(gsp_daemon__sessions_stop_all(state->sessions, &ended, &all, &count, &err), 0);
    tap_require(count == 2);
    tap_eq_str(all[0].name, "b");
    tap_check(all[0].end_ns == all[1].end_ns && all[0].end_ns == last.end_ns);
    tap_check(all[0].frame_count == 2 && all[1].frame_count == 5);
    free(all);
    /* Without an output folder the sessions have still ended. */
    tap_eq_int(start(state, "c", NULL), 0);
    char path[512];
    snprintf(path, sizeof(path), "%s-away", state->output);
    tap_require(rename(state->output, path) == 0);
    tap_eq_int(gsp_daemon__sessions_stop_all(state->sessions, NULL, &all, &count, &err),
               GSP_E_NOWRITE);
    tap_check(count == 0 && gsp_daemon__sessions_active_count(state->sessions) == 0);
    free(all);
    tap_require(rename(path, state->output) == 0);
    end_state(state);
}

TAP_TEST(missing_output_folder_is_retried)
{
    struct state *state = new_state();
    struct gsp_session s;
    struct gsp_err err = {0};
    tap_eq_int(start(state, "a", NULL), 0);
    add_frames(state, 5);
    tap_require(rmdir(state->output) == 0);
    tap_eq_int(gsp_daemon__sessions_stop(state->sessions, "a", &s, &err), GSP_E_NOWRITE);
    tap_check(!s.active && s.failed && s.error[0]);
    printf("# %s\n", s.error);
    gsp_daemon__sessions_maintain(state->sessions, gsp_realtime_ns() + 60 * GSP_NS_PER_S);
    tap_eq_int(gsp_daemon__sessions_find(state->sessions, "a", &s, NULL), 0);
    tap_check(s.failed);
    add_frames(state, 5); /* not part of the session */
    close_state(state);
    open_state(state);
    tap_require(mkdir(state->output, 0700) == 0);
    gsp_daemon__sessions_maintain(state->sessions, gsp_realtime_ns() + 60 * GSP_NS_PER_S);
    tap_eq_int(gsp_daemon__sessions_find(state->sessions, "a", &s, NULL), 0);
    tap_check(!s.failed && s.frame_count == 5);
    char *text = read_output(state, "a.json");
    tap_eq_int(count_frames(text), 5);
    free(text);
    end_state(state);
}

TAP_TEST(full_disk_leaves_no_partial_file)
{
    struct state *state = new_state();
    struct gsp_session s;
    tap_eq_int(start(state, "a", NULL), 0);
    add_frames(state, 50);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old;
    tap_require(getrlimit(RLIMIT_FSIZE, &old) == 0);
    struct rlimit tight = {30000, old.rlim_max};
    tap_require(setrlimit(RLIMIT_FSIZE, &tight) == 0);
    tap_eq_int(stop(state, "a", &s), GSP_E_NOWRITE);
    tap_check(s.failed);
    tap_require(setrlimit(RLIMIT_FSIZE, &old) == 0);
    tap_check(rmdir(state->output) == 0); /* it is empty */
    tap_require(mkdir(state->output, 0700) == 0);
    gsp_daemon__sessions_maintain(state->sessions, gsp_realtime_ns() + 60 * GSP_NS_PER_S);
    char *text = read_output(state, "a.json");
    tap_eq_int(count_frames(text), 50);
    free(text);
    end_state(state);
}

TAP_TEST(start_fails_without_journal)
{
    struct state *state = new_state();
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old;
    tap_require(getrlimit(RLIMIT_FSIZE, &old) == 0);
    tap_eq_int(start(state, "before", NULL), 0);
    struct rlimit tight = {100, old.rlim_max}; /* a part of a line fits */
    tap_require(setrlimit(RLIMIT_FSIZE, &tight) == 0);
    tap_eq_int(start(state, "a session with quite a long name", NULL), GSP_E_NOWRITE);
    tap_require(setrlimit(RLIMIT_FSIZE, &old) == 0);
    tap_eq_int(gsp_daemon__sessions_active_count(state->sessions), 1);
    tap_eq_int(start(state, "after", NULL), 0);
    close_state(state);
    open_state(state);
    tap_eq_int(gsp_daemon__sessions_active_count(state->sessions), 2);
    end_state(state);
}

TAP_TEST(links_in_the_output_folder_are_not_followed)
{
    struct state *state = new_state();
    char target[256];
    char path[256];
    snprintf(target, sizeof(target), "%s/elsewhere", state->folder);
    snprintf(path, sizeof(path), "%s/a.json", state->output);
    int fd = open(target, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    tap_require(fd >= 0);
    close(fd);
    tap_require(symlink(target, path) == 0);
    struct gsp_session s;
    struct gsp_session_start force = {.name = "a", .force = true};
    tap_eq_int(gsp_daemon__sessions_start(state->sessions, &force, &s, NULL), 0);
    tap_eq_int(stop(state, "a", &s), 0);
    tap_eq_str(s.file, "a_2.json");
    struct stat st;
    tap_check(stat(target, &st) == 0 && st.st_size == 0);
    end_state(state);
}

TAP_TEST(old_sessions_are_removed_but_not_their_files)
{
    struct state *state = new_state();
    struct gsp_session s;
    tap_eq_int(start(state, "old", NULL), 0);
    tap_eq_int(start(state, "active", NULL), 0);
    tap_eq_int(stop(state, "old", NULL), 0);
    int64_t now = gsp_realtime_ns();
    gsp_daemon__sessions_maintain(state->sessions, now);
    tap_eq_int(gsp_daemon__sessions_find(state->sessions, "old", &s, NULL), 0);
    gsp_daemon__sessions_maintain(state->sessions, now + 8LL * 24 * 3600 * GSP_NS_PER_S);
    tap_eq_int(gsp_daemon__sessions_find(state->sessions, "old", &s, NULL), GSP_E_NOFILE);
    tap_eq_int(gsp_daemon__sessions_find(state->sessions, "active", &s, NULL), 0);
    free(read_output(state, "old.json"));
    tap_eq_int(start(state, "old", &s), 0);
    tap_eq_str(s.file, "old_2.json"); /* never overwrites an existing file */
    end_state(state);
}

TAP_TEST(deleting_removes_the_file)
{
    struct state *state = new_state();
    char path[256];
    tap_eq_int(start(state, "a", NULL), 0);
    tap_eq_int(stop(state, "a", NULL), 0);
    snprintf(path, sizeof(path), "%s/a.json", state->output);
    tap_check(access(path, F_OK) == 0);
    tap_eq_int(gsp_daemon__sessions_delete(state->sessions, "a", NULL), 0);
    tap_check(access(path, F_OK) != 0);
    tap_eq_int(gsp_daemon__sessions_delete(state->sessions, "a", NULL), GSP_E_NOFILE);
    end_state(state);
}

TAP_TEST(journal_is_compacted)
{
    struct state *state = new_state();
    tap_eq_int(start(state, "stays", NULL), 0);
    for (int i = 0; i < 700; i++) {
        tap_eq_int(start(state, "x", NULL), 0);
        tap_eq_int(gsp_daemon__sessions_delete(state->sessions, "x", NULL), 0);
    }
    gsp_daemon__sessions_maintain(state->sessions, gsp_realtime_ns());
    char path[256];
    struct stat st;
    snprintf(path, sizeof(path), "%s/sessions.journal", state->state);
    tap_require(stat(path, &st) == 0);
    tap_check(st.st_size < 200);
    tap_eq_int(start(state, "after", NULL), 0);
    close_state(state);
    open_state(state);
    tap_eq_int(gsp_daemon__sessions_active_count(state->sessions), 2);
    end_state(state);
}

#define THREADS 8
#define ROUNDS  40

static void *work(void *ctx)
{
    struct state *state = ctx;
    uintptr_t won = 0;
    for (int i = 0; i < ROUNDS; i++) {
        char name[32];
        struct gsp_session s;
        snprintf(name, sizeof(name), "shared%d", i);
        struct gsp_session_start with = {.name = name};
        won += gsp_daemon__sessions_start(state->sessions, &with, &s, NULL) == 0;
        gsp_ignore(gsp_daemon__sessions_find(state->sessions, name, &s, NULL));
        if (i % 4 == 0)
            gsp_daemon__sessions_maintain(state->sessions, gsp_realtime_ns());
        struct gsp_session *list = NULL;
        size_t n = 0;
        if (gsp_daemon__sessions_list(state->sessions, &list, &n, NULL) == 0)
            free(list);
    }
    return (void *)won; /* NOLINT(performance-no-int-to-ptr) */
}

TAP_TEST(concurrent_starts_of_a_name)
{
    struct state *state = new_state();
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        tap_require(pthread_create(&threads[i], NULL, work, state) == 0);
    add_frames(state, 200);
    uintptr_t won = 0;
    for (size_t i = 0; i < THREADS; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        won += (uintptr_t)result;
    }
    tap_eq_int(won, ROUNDS);
    tap_eq_int(gsp_daemon__sessions_active_count(state->sessions), ROUNDS);
    end_state(state);
}

static void *stop_half(void *ctx)
{
    struct state *state = ctx;
    uintptr_t won = 0;
    for (int i = 0; i < ROUNDS; i++) {
        char name[32];
        struct gsp_session s;
        snprintf(name, sizeof(name), "s%d", i);
        won += gsp_daemon__sessions_stop(state->sessions, name, &s, NULL) == 0;
        gsp_daemon__sessions_maintain(state->sessions, gsp_realtime_ns());
    }
    return (void *)won; /* NOLINT(performance-no-int-to-ptr) */
}

TAP_TEST(concurrent_stops_of_a_session)
{
    struct state *state = new_state();
    add_frames(state, 5);
    for (int i = 0; i < ROUNDS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "s%d", i);
        tap_eq_int(start(state, name, NULL), 0);
    }
    pthread_t threads[4];
    for (size_t i = 0; i < GSP_COUNT(threads); i++)
        tap_require(pthread_create(&threads[i], NULL, stop_half, state) == 0);
    add_frames(state, 50);
    uintptr_t won = 0;
    for (size_t i = 0; i < GSP_COUNT(threads); i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        won += (uintptr_t)result;
    }
    tap_eq_int(won, ROUNDS);
    for (int i = 0; i < ROUNDS; i++) {
        char file[32];
        snprintf(file, sizeof(file), "s%d.json", i);
        free(read_output(state, file));
    }
    end_state(state);
}

static struct gsp_stacks_id begin_stacks(struct state *state, const char *file, int32_t pid,
                                         bool kept)
{
    const struct gsp_stacks_begin begin = {.session = "s", .file = file, .pid = pid, .kept = kept};
    struct gsp_stacks_id ticket;
    tap_eq_int(gsp_daemon__sessions_stacks_begin(state->sessions, &begin, &ticket, NULL), 0);
    return ticket;
}

TAP_TEST(first_sessions_match_the_list)
{
    struct state *state = new_state();
    struct gsp_session first[8];
    struct gsp_session *list = NULL;
    struct gsp_sessions_counts counts;
    size_t n = 0;
    for (int i = 0; i < 30; i++) {
        char name[32];
        snprintf(name, sizeof(name), "s%d", i);
        tap_eq_int(start(state, name, NULL), 0);
        if (i % 4 == 3)
            tap_eq_int(gsp_daemon__sessions_delete(state->sessions, name, NULL), 0);
        if (i % 4 == 2)
            tap_eq_int(stop(state, name, NULL), 0);
    }
    tap_eq_int(gsp_daemon__sessions_list(state->sessions, &list, &n, NULL), 0);
    tap_eq_int(n, 23);
    for (size_t max = 0; max <= GSP_COUNT(first); max++) {
        tap_eq_int(gsp_daemon__sessions_first(state->sessions, false, first, max, &counts, NULL),
                   max);
        for (size_t i = 0; i < max; i++)
            tap_eq_str(first[i].name, list[i].name);
    }
    tap_eq_int(counts.total, 23);
    tap_eq_int(counts.active, 16);
    tap_eq_int(counts.failed, 0);
    tap_eq_int(
        gsp_daemon__sessions_first(state->sessions, true, first, GSP_COUNT(first), &counts, NULL),
        0);
    free(list);
    end_state(state);
}

TAP_TEST(cut_recordings_continue)
{
    struct state *state = new_state();
    const int32_t pids[] = {11, 22, 33};
    const struct gsp_session_start with = {.name = "s",
                                           .pids = pids,
                                           .pid_count = 3,
                                           .stacks = true,
                                           .stack_native = true,
                                           .stack_rate_hz = 49.5};
    struct gsp_session s;
    struct gsp_stacks_unfinished *wanted = NULL;
    size_t count = 0;
    add_frames(state, 1);
    tap_eq_int(gsp_daemon__sessions_start(state->sessions, &with, &s, NULL), 0);
    begin_stacks(state, "s.11.gsp", 11, true);
    begin_stacks(state, "asked.gsp", 11, false);
    struct gsp_stacks_id ended = begin_stacks(state, "s.22.gsp", 22, true);
    struct gsp_stacks_id stopped = begin_stacks(state, "s.33.gsp", 33, true);
    const struct gsp_stacks_end end = {
        .how = GSP_STACKS_ENDED, .end_ns = 5, .samples = 7, .error = "why\tnot"};
    const struct gsp_stacks_end stop_end = {
        .how = GSP_STACKS_STOPPED, .end_ns = 5, .samples = 7, .error = ""};
    gsp_daemon__sessions_stacks_end(state->sessions, &ended, &end);
    gsp_daemon__sessions_stacks_end(state->sessions, &stopped, &stop_end);
    /* Once with the original journal, once after compaction. */
    for (int round = 0; round < 2; round++) {
        close_state(state);
        open_state(state);
        tap_eq_int(gsp_daemon__sessions_stacks_unfinished(state->sessions, &wanted, &count, NULL),
                   0);
        tap_eq_int(count, 2);
        tap_require(count == 2);
        tap_eq_int(wanted[0].pid, 11);
        tap_eq_str(wanted[0].stem, "s.11");
        tap_eq_int(wanted[1].pid, 33);
        tap_check(wanted[1].native && wanted[1].rate_hz > 49.4 && wanted[1].rate_hz < 49.6);
        free(wanted);
        for (int i = 0; i < 600; i++) {
            tap_eq_int(start(state, "other", NULL), 0);
            tap_eq_int(gsp_daemon__sessions_delete(state->sessions, "other", NULL), 0);
        }
        gsp_daemon__sessions_maintain(state->sessions, gsp_realtime_ns());
    }
    begin_stacks(state, "s.33_2.gsp", 33, true);
    tap_eq_int(gsp_daemon__sessions_find(state->sessions, "s", &s, NULL), 0);
    tap_eq_int(s.stack_files, 5);
    tap_eq_int(s.stack_gaps, 1);
    tap_check(has(s.error, "process 11: the file does not exist any more"));
    char file[300];
    tap_check(gsp_daemon__sessions_stacks_file(state->sessions, "s", 33, 0, file));
    tap_eq_str(file, "s.33_2.gsp");
    tap_check(!gsp_daemon__sessions_stacks_file(state->sessions, "s", 0, 6, file));
    tap_eq_int(stop(state, "s", NULL), 0);
    char *text = read_output(state, "s.json");
    tap_check(has(text, "\"stack_gaps\":1,"));
    tap_check(has(text, "\"error\":\"why\\tnot\""));
    free(text);
    struct gsp_stacks_id none;
    const struct gsp_stacks_begin late = {.session = "s", .file = "s_3.gsp", .pid = 1};
    tap_eq_int(gsp_daemon__sessions_stacks_begin(state->sessions, &late, &none, NULL),
               GSP_E_NOFILE);
    end_state(state);
}

TAP_TEST(killed_at_random_times_under_load)
{
    char folder[64];
    made_folder(folder);
    struct kills_result result = daemon_kills(folder, 20, (unsigned)gsp_now_ns());
    printf("# %u kills, %" PRIu64 " frames\n", result.rounds, result.frames);
    tap_eq_int(result.rounds, 20);
    tap_eq_int(result.wrong, 0);
    tap_check(result.stopped > 0);
    made_remove(folder);
}

TAP_MAIN()
