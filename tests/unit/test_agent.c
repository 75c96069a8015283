/* SPDX-License-Identifier: Apache-2.0 */
/* The agent in one process: rows, settings, and behaviour without space. */
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "agent_fixture.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/time.h"
#include "mounts.h"

TAP_TEST(start_creates_a_page_and_writes_the_settings)
{
    agent_setup();
    tap_check(!gsp_agent_is_on());
    tap_eq_str(gsp_agent_version(), GSP_VERSION);
    tap_eq_int(gsp_agent_start(), GSP_AGENT_OK);
    tap_eq_int(gsp_agent_start(), GSP_AGENT_OK);
    tap_check(gsp_agent_is_on());
    static struct gsp_control page;
    const int folder = agent_folder(getpid());
    tap_require(folder >= 0);
    tap_eq_int(gsp_wire_control_read(folder, &page, NULL), 0);
    close(folder);
    tap_eq_int(atomic_load(&page.state), GSP_CONTROL_LOADED);
    tap_eq_int(atomic_load(&page.applied), atomic_load(&page.serial));
    tap_eq_str(page.agent, GSP_VERSION);
    tap_eq_int(agent_read(getpid(), SETTING_FILE).rows, GSP_SET_COUNT);
    gsp_agent_mark(GSP_CONTROL_PYTHON | GSP_CONTROL_TORCH, 0);
    gsp_agent_mark(0, GSP_CONTROL_TORCH);
    gsp_agent_stop();
    agent_teardown();
}

TAP_TEST(nothing_happens_before_the_start)
{
    agent_setup();
    char value[GSP_CONTROL_VALUE];
    const uint64_t serial = atomic_load(gsp_agent_serial());
    tap_eq_int(agent_put_rows(1, 10), 0);
    tap_eq_int(gsp_agent_intern(GSP_TABLE_python_span, gsp_sv_of("x")), GSP_NULL_STR);
    tap_check(gsp_agent_set(GSP_SET_torch, "yes"));
    tap_check(!gsp_agent_set(GSP_SET_torch, "maybe"));
    tap_check(!gsp_agent_set((enum gsp_setting_id)GSP_SET_COUNT, "on"));
    tap_check(atomic_load(gsp_agent_serial()) != serial);
    gsp_agent_stop();
    tap_eq_int(agent_folder(getpid()), -1);
    /* Values that were set before the start are kept. */
    tap_eq_int(gsp_agent_start(), GSP_AGENT_OK);
    tap_check(gsp_agent_setting(GSP_SET_torch, value));
    tap_eq_str(value, "on");
    gsp_agent_stop();
    agent_teardown();
}

TAP_TEST(rows_and_strings_arrive)
{
    agent_setup();
    tap_eq_int(gsp_agent_start(), GSP_AGENT_OK);
    tap_eq_int(agent_put_rows(1, 1000), 1000);
    const struct agent_rows seen = agent_read(getpid(), RING_FILE);
    tap_eq_int(seen.rows, 1000);
    tap_eq_int(seen.torn, 0);
    tap_eq_int(seen.lost, 0);
    const struct gsp_row_python_span span = {
        .ts_ns = 1,
        .mono_ns = 1,
        .name = gsp_agent_intern(GSP_TABLE_python_span, gsp_sv_of("load")),
        .start_ns = 1,
    };
    tap_check(span.name != GSP_NULL_STR);
    tap_eq_int(gsp_agent_intern(GSP_TABLE_python_span, gsp_sv_of("load")), span.name);
    tap_check(gsp_agent_put(GSP_TABLE_python_span, &span));
    tap_eq_int(agent_read(getpid(), "python.span.ring").rows, 1);
    tap_check(!gsp_agent_put((enum gsp_table_id)GSP_TABLE_COUNT, &span));
    tap_eq_int(gsp_agent_intern((enum gsp_table_id)9999, gsp_sv_of("x")), GSP_NULL_STR);
    gsp_agent_stop();
    tap_eq_int(agent_read(getpid(), RING_FILE).rows, 1000);
    tap_check(agent_read(getpid(), RING_FILE).status & GSP_RING_CLOSED);
    tap_eq_int(agent_put_rows(1, 10), 0);
    agent_teardown();
}

TAP_TEST(tables_of_the_program)
{
    static const struct gsp_column_spec columns[] = {{"n", NULL, NULL, GSP_I64}};
    struct gsp_table_spec spec = {
        .schema = "python", .name = "own", .columns = columns, .column_count = 1};
    struct row {
        int64_t ts_ns;
        int64_t mono_ns;
        int64_t n;
    } row = {1, 1, 7};
    struct gsp_table *table = NULL;
    struct gsp_table *again = NULL;
    agent_setup();
    tap_require(gsp_wire_table_new(&spec, &table, NULL) == 0);
    tap_require(gsp_wire_table_new(&spec, &again, NULL) == 0);
    tap_eq_int(table->row_bytes, sizeof(row));
    const enum gsp_table_id id = gsp_agent_table_add(table);
    tap_eq_int(id, GSP_TABLE_COUNT);
    tap_eq_int(gsp_agent_table_add(again), id);
    tap_check(gsp_agent_table_at((size_t)id) == table);
    tap_check(gsp_agent_table_at((size_t)id + 1) == NULL);
    tap_check(!gsp_agent_put(id, &row));
    tap_eq_int(gsp_agent_start(), GSP_AGENT_OK);
    tap_check(gsp_agent_put(id, &row));
    tap_check(!gsp_agent_put((enum gsp_table_id)(id + 1), &row));
    tap_eq_int(agent_read(getpid(), "python.own.ring").rows, 1);
    gsp_agent_stop();
    /* The table stays valid after a restart. */
    tap_eq_int(gsp_agent_start(), GSP_AGENT_OK);
    tap_check(gsp_agent_put(id, &row));
    gsp_agent_stop();
    size_t count = 0;
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof(name), "own%d", i);
        spec.name = name;
        struct gsp_table *more = NULL;
        tap_require(gsp_wire_table_new(&spec, &more, NULL) == 0);
        const bool fits = gsp_agent_table_at((size_t)gsp_agent_table_add(more)) == more;
        count += fits;
        if (!fits)
            gsp_wire_table_free(more);
    }
    tap_eq_int(count, 63);
    gsp_wire_table_free(again);
    agent_teardown();
}

TAP_TEST(the_environment_sets_the_number_of_rows)
{
    char value[GSP_CONTROL_VALUE];
    agent_setup();
    setenv("GSPROF_RING_ROWS", "123", 1);
    gsp_agent_start();
    tap_check(gsp_agent_setting(GSP_SET_ring_rows, value));
    tap_eq_str(value, "123");
    agent_put_rows(1, 1);
    tap_eq_int(agent_read(getpid(), RING_FILE).capacity, 123);
    /* A change applies to rings that are created later. */
    tap_check(gsp_agent_set(GSP_SET_ring_rows, "456"));
    agent_put_rows(1, 1);
    tap_eq_int(agent_read(getpid(), RING_FILE).capacity, 123);
    const struct gsp_row_python_span span = {.ts_ns = 1};
    tap_check(gsp_agent_put(GSP_TABLE_python_span, &span));
    tap_eq_int(agent_read(getpid(), "python.span.ring").capacity, 456);
    gsp_agent_stop();
    setenv("GSPROF_RING_ROWS", "many", 1);
    gsp_agent_start();
    const struct gsp_row_python_torch_step step = {.ts_ns = 1};
    gsp_agent_put(GSP_TABLE_python_torch_step, &step);
    tap_eq_int(agent_read(getpid(), "python.torch_step.ring").capacity, GSP_RING_ROWS_DEFAULT);
    gsp_agent_stop();
    agent_teardown();
}

TAP_TEST(settings_change_from_outside_and_inside)
{
    agent_setup();
    gsp_agent_start();
    const _Atomic uint64_t *word = gsp_agent_serial();
    const uint64_t before = atomic_load(word);
    const struct gsp_control_change change = {GSP_SET_torch_rate, "0.25"};
    uint64_t serial = 0;
    const int folder = agent_folder(getpid());
    tap_eq_int(gsp_wire_control_write(folder, &change, 1, &serial, NULL), 0);
    tap_check(atomic_load(word) != before);
    tap_eq_int(atomic_load(word), serial);
    char value[GSP_CONTROL_VALUE];
    tap_check(gsp_agent_setting(GSP_SET_torch_rate, value));
    tap_eq_str(value, "0.25");
    static struct gsp_control page;
    tap_eq_int(gsp_wire_control_read(folder, &page, NULL), 0);
    tap_check(atomic_load(&page.applied) < serial);
    gsp_agent_applied(serial);
    tap_eq_int(gsp_wire_control_read(folder, &page, NULL), 0);
    tap_eq_int(atomic_load(&page.applied), serial);
    tap_eq_int(agent_read(getpid(), SETTING_FILE).rows, GSP_SET_COUNT + 1);
    tap_check(gsp_agent_set(GSP_SET_torch_layers, "encoder"));
    tap_eq_int(gsp_wire_control_read(folder, &page, NULL), 0);
    tap_eq_str(page.value[GSP_SET_torch_layers], "encoder");
    tap_eq_int(agent_read(getpid(), SETTING_FILE).rows, GSP_SET_COUNT + 2);
    close(folder);
    gsp_agent_stop();
    agent_teardown();
}

/* Locks the file of the page for this time, in another process. */
static pid_t hold_page(int64_t ns)
{
    int ready[2];
    char byte = 0;
    tap_require(pipe(ready) == 0);
    const int folder = agent_folder(getpid());
    const pid_t pid = fork();
    if (pid == 0) {
        const struct timespec a_while = {ns / GSP_NS_PER_S, ns % GSP_NS_PER_S};
        const int fd = openat(folder, GSP_CONTROL_FILE, O_RDWR);
        const bool held = flock(fd, LOCK_EX) == 0 && write(ready[1], &byte, 1) == 1;
        nanosleep(&a_while, NULL);
        _exit(held ? 0 : 1);
    }
    tap_require(pid > 0 && read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    close(folder);
    return pid;
}

TAP_TEST(set_waits_for_a_writer_that_holds_the_lock)
{
    agent_setup();
    char value[GSP_CONTROL_VALUE];
    gsp_agent_start();
    pid_t pid = hold_page(300 * GSP_NS_PER_MS);
    tap_check(gsp_agent_set(GSP_SET_torch, "on"));
    tap_check(gsp_agent_setting(GSP_SET_torch, value));
    tap_eq_str(value, "on");
    waitpid(pid, NULL, 0);
    /* But not forever. */
    pid = hold_page(30 * GSP_NS_PER_S);
    const int64_t begin_ns = gsp_now_ns();
    tap_check(!gsp_agent_set(GSP_SET_torch, "off"));
    tap_check(gsp_now_ns() - begin_ns < 10 * GSP_NS_PER_S);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    tap_check(gsp_agent_set(GSP_SET_torch, "off"));
    gsp_agent_stop();
    agent_teardown();
}

TAP_TEST(stop_is_visible_and_the_next_start_uses_new_rings)
{
    agent_setup();
    static struct gsp_control page;
    char value[GSP_CONTROL_VALUE];
    gsp_agent_start();
    const _Atomic uint64_t *word = gsp_agent_serial();
    const uint32_t generation = atomic_load(gsp_agent_generation());
    gsp_agent_set(GSP_SET_torch, "on");
    const uint64_t serial = atomic_load(word);
    agent_put_rows(1, 10);
    gsp_agent_stop();
    gsp_agent_stop();
    tap_check(!gsp_agent_is_on());
    tap_check(atomic_load(gsp_agent_generation()) != generation);
    const int folder = agent_folder(getpid());
    tap_eq_int(gsp_wire_control_read(folder, &page, NULL), 0);
    tap_eq_int(atomic_load(&page.state), GSP_CONTROL_EJECTED);
    /* Hooks that still poll the word see a change, and find the defaults. */
    tap_check(atomic_load(word) != serial);
    tap_check(gsp_agent_setting(GSP_SET_torch, value));
    tap_eq_str(value, "off");
    tap_eq_int(gsp_agent_start(), GSP_AGENT_OK);
    tap_check(gsp_agent_serial() == word);
    tap_eq_int(gsp_wire_control_read(folder, &page, NULL), 0);
    tap_eq_int(atomic_load(&page.state), GSP_CONTROL_LOADED);
    tap_eq_int(agent_put_rows(1, 7), 7);
    /* Rows from before the stop stay. */
    tap_eq_int(agent_read(getpid(), RING_FILE).rows, 10);
    tap_eq_int(agent_read(getpid(), "python.torch_trace.1.ring").rows, 7);
    close(folder);
    gsp_agent_stop();
    agent_teardown();
}

TAP_TEST(the_rank_is_set_later)
{
    agent_setup();
    gsp_agent_start();
    agent_put_rows(1, 1);
    tap_eq_int(agent_read(getpid(), RING_FILE).rank, GSP_NULL_I64);
    gsp_agent_set_rank(5);
    tap_eq_int(agent_read(getpid(), RING_FILE).rank, 5);
    const struct gsp_row_python_torch_step step = {.ts_ns = 1};
    gsp_agent_put(GSP_TABLE_python_torch_step, &step);
    tap_eq_int(agent_read(getpid(), "python.torch_step.ring").rank, 5);
    gsp_agent_stop();
    agent_teardown();
}

/* Creates a page with the state LOADED. If it stays mapped, it belongs to another copy of the agent
 * in this process. */
static void plant_page(bool keep_mapped)
{
    uint64_t start_time = 0;
    char state = 0;
    char path[192];
    int folder = -1;
    const struct gsp_ring_dir_spec about = {.pid = getpid(), .rank = GSP_NULL_I64};
    tap_require(gsp_ring_process_start_time(getpid(), &start_time, &state));
    tap_require(gsp_ring_dir_create(&about, &folder, NULL) == 0);
    snprintf(path, sizeof(path), "%s/gsprof/%d-%llu/control", agent_root, (int)getpid(),
             (unsigned long long)start_time);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    tap_require(fd >= 0 && ftruncate(fd, sizeof(struct gsp_control)) == 0);
    struct gsp_control *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    tap_require(page != MAP_FAILED);
    gsp_wire_control_init(page, "0.0.9");
    atomic_store(&page->state, GSP_CONTROL_LOADED);
    if (!keep_mapped)
        munmap(page, sizeof(*page));
    close(fd);
    close(folder);
}

TAP_TEST(another_copy_in_this_process_is_detected)
{
    agent_setup();
    plant_page(true);
    tap_eq_int(gsp_agent_start(), GSP_AGENT_OTHER);
    tap_check(!gsp_agent_is_on());
    tap_eq_int(agent_put_rows(1, 1), 0);
    agent_teardown();
}

TAP_TEST(a_page_from_before_exec_is_replaced)
{
    agent_setup();
    plant_page(false);
    tap_eq_int(gsp_agent_start(), GSP_AGENT_OK);
    tap_eq_int(agent_put_rows(1, 1), 1);
    gsp_agent_stop();
    agent_teardown();
}

TAP_TEST(a_program_may_close_all_descriptors)
{
    agent_setup();
    gsp_agent_start();
    agent_put_rows(1, 1);
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    /* The program reuses the descriptor numbers. */
    int mine[16];
    for (size_t i = 0; i < GSP_COUNT(mine); i++)
        mine[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    tap_eq_int(agent_put_rows(1, 10), 10);
    const struct gsp_row_python_torch_step step = {.ts_ns = 1};
    tap_check(gsp_agent_put(GSP_TABLE_python_torch_step, &step));
    tap_check(gsp_agent_set(GSP_SET_torch, "on"));
    gsp_agent_stop();
    for (size_t i = 0; i < GSP_COUNT(mine); i++)
        tap_check(fcntl(mine[i], F_GETFD) >= 0);
    agent_teardown();
}

/* ---------------------------------------------------------------------------------------- space */

/* Mounts a small /dev/shm, /tmp and /var/tmp, so that rings have no other root. */
static void limit_space(const char *size, unsigned long flags)
{
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("GSPROF_RING_ROWS");
    if (!mounts_begin() || mount("none", "/dev/shm", "tmpfs", flags, size) != 0 ||
        mount("none", "/tmp", "tmpfs", flags, size) != 0 ||
        mount("none", "/var/tmp", "tmpfs", flags, size) != 0)
        tap_skip("needs root and a mount namespace, for a small /dev/shm");
}

static void check_quiet(enum gsp_agent_rc expected)
{
    char value[GSP_CONTROL_VALUE];
    errno = 4711;
    tap_eq_int(gsp_agent_start(), expected);
    tap_eq_int(agent_put_rows(1, 100), 0);
    /* The program continues, and its settings apply in this process. */
    tap_check(gsp_agent_set(GSP_SET_torch, "on"));
    tap_check(gsp_agent_setting(GSP_SET_torch, value));
    tap_eq_str(value, "on");
    tap_eq_int(errno, 4711);
}

TAP_TEST(no_space_at_all)
{
    limit_space("size=4k,nr_inodes=4", 0);
    check_quiet(GSP_AGENT_NO_SPACE);
    tap_check(!gsp_agent_is_on());
}

TAP_TEST(a_read_only_file_system)
{
    limit_space("size=64m", MS_RDONLY);
    check_quiet(GSP_AGENT_NO_SPACE);
    /* A later start succeeds when the file system is writable. */
    tap_require(mount("none", "/dev/shm", "tmpfs", MS_REMOUNT, "size=64m") == 0);
    tap_eq_int(gsp_agent_start(), GSP_AGENT_OK);
    tap_eq_int(agent_put_rows(1, 10), 10);
}

TAP_TEST(space_for_only_the_page)
{
    limit_space("size=352k", 0);
    check_quiet(GSP_AGENT_OK);
    static struct gsp_control page;
    const int folder = agent_folder(getpid());
    tap_require(folder >= 0);
    tap_eq_int(gsp_wire_control_read(folder, &page, NULL), 0);
    tap_check(atomic_load(&page.state) & GSP_CONTROL_QUIET);
}

/* Every ring is reduced, and leaves space for the next ones. */
TAP_TEST(little_space)
{
    limit_space("size=3m", 0);
    tap_eq_int(gsp_agent_start(), GSP_AGENT_OK);
    tap_eq_int(agent_put_rows(1, 10), 10);
    const struct gsp_row_python_torch_step step = {.ts_ns = 1};
    const struct gsp_row_python_span span = {.ts_ns = 1};
    tap_check(gsp_agent_put(GSP_TABLE_python_torch_step, &step));
    tap_check(gsp_agent_put(GSP_TABLE_python_span, &span));
    const uint32_t rows = agent_read(getpid(), RING_FILE).capacity;
    tap_check(rows >= 256 && rows < GSP_RING_ROWS_DEFAULT);
    struct gsp_ring_dir dir;
    tap_require(gsp_ring_dir_find(getpid(), &dir, NULL) == 0);
    tap_check(dir.small_rings >= 3 && strstr(dir.note, "MB of space for tables") != NULL);
    /* Three quarters are reserved for the program. */
    struct statvfs fs;
    tap_require(statvfs(dir.path, &fs) == 0);
    tap_check(fs.f_bfree * 4 >= fs.f_blocks * 3);
}

/* While limited, no descriptor can be opened. */
static void limit_descriptors(bool limited)
{
    static struct rlimit before;
    if (limited) {
        tap_require(getrlimit(RLIMIT_NOFILE, &before) == 0);
        const struct rlimit none = {0, before.rlim_max};
        tap_require(setrlimit(RLIMIT_NOFILE, &none) == 0);
    } else {
        tap_require(setrlimit(RLIMIT_NOFILE, &before) == 0);
    }
}

static void wait_for_retry(void)
{
    const struct timespec a_while = {0, 150 * GSP_NS_PER_MS};
    nanosleep(&a_while, NULL);
}

TAP_TEST(creating_a_ring_is_retried)
{
    agent_setup();
    gsp_agent_start();
    limit_descriptors(true);
    tap_eq_int(agent_put_rows(1, 5), 0);
    limit_descriptors(false);
    static struct gsp_control page;
    const int folder = agent_folder(getpid());
    tap_eq_int(gsp_wire_control_read(folder, &page, NULL), 0);
    tap_check(atomic_load(&page.state) & GSP_CONTROL_QUIET);
    wait_for_retry();
    tap_eq_int(agent_put_rows(1, 7), 7);
    tap_eq_int(agent_read(getpid(), RING_FILE).rows, 7);
    tap_eq_int(agent_read(getpid(), RING_FILE).lost, 5);
    tap_eq_int(gsp_wire_control_read(folder, &page, NULL), 0);
    tap_check(!(atomic_load(&page.state) & GSP_CONTROL_QUIET));
    close(folder);
    gsp_agent_stop();
    agent_teardown();
}

TAP_TEST(a_restart_resets_the_losses)
{
    agent_setup();
    gsp_agent_start();
    limit_descriptors(true);
    tap_eq_int(agent_put_rows(1, 5), 0);
    limit_descriptors(false);
    gsp_agent_stop();
    tap_eq_int(gsp_agent_start(), GSP_AGENT_OK);
    tap_eq_int(agent_put_rows(1, 7), 7);
    tap_eq_int(agent_read(getpid(), RING_FILE).lost, 0);
    gsp_agent_stop();
    agent_teardown();
}

/* -------------------------------------------------------------------------------- entry point */

static bool wait_for_file(const char *path, struct gsp_buf *out)
{
    const int64_t end_ns = gsp_now_ns() + 15 * GSP_NS_PER_S;
    while (gsp_now_ns() < end_ns) {
        gsp_buf_clear(out);
        if (gsp_file_read(path, 4096, out, NULL) == 0)
            return true;
        sched_yield();
    }
    return false;
}

TAP_TEST(entering_a_process_without_python)
{
    agent_setup();
    gsp_auto_buf said = {0};
    char path[128];
    int rc = -1;
    snprintf(path, sizeof(path), "%s/outcome", agent_root);
    gsp_agent_enter("/nowhere.py", path, &rc);
    tap_eq_int(rc, 0);
    tap_require(wait_for_file(path, &said));
    tap_eq_str(gsp_buf_cstr(&said), "error not a Python process\n");
    tap_check(gsp_agent_is_on());
    unlink(path);
    gsp_agent_enter(NULL, path, &rc);
    tap_eq_int(rc, 0);
    tap_require(wait_for_file(path, &said));
    tap_eq_str(gsp_buf_cstr(&said), "ok\n");
    unlink(path);
    gsp_agent_stop();
    agent_teardown();
}

TAP_TEST(errno_is_preserved)
{
    agent_setup();
    errno = 4711;
    gsp_agent_start();
    agent_put_rows(1, 1);
    gsp_agent_intern(GSP_TABLE_python_span, gsp_sv_of("x"));
    gsp_agent_set(GSP_SET_torch, "on");
    gsp_agent_applied(atomic_load(gsp_agent_serial()));
    gsp_agent_set_rank(1);
    gsp_agent_stop();
    gsp_auto_buf said = {0};
    char path[128];
    int rc = -1;
    snprintf(path, sizeof(path), "%s/outcome", agent_root);
    gsp_agent_enter(NULL, path, &rc);
    tap_eq_int(errno, 4711);
    tap_require(wait_for_file(path, &said));
    gsp_agent_stop();
    agent_teardown();
}

TAP_MAIN()
