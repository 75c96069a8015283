/* SPDX-License-Identifier: Apache-2.0 */
/* The control page: which values it accepts, and that no reader sees a torn value. */
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "tap.h"
#include "wire/control_file.h"

static const char *checked(enum gsp_setting_id id, const char *value)
{
    static char out[GSP_CONTROL_VALUE];
    struct gsp_err err = {0};
    const int rc = gsp_wire_setting_row_check((size_t)id, gsp_sv_of(value), out, &err);
    if (rc == 0)
        return out;
    tap_eq_int(rc, GSP_E_USAGE);
    tap_check(strstr(err.msg, gsp_wire_setting_row((size_t)id)->name) != NULL);
    return NULL;
}

static struct gsp_control *new_page(void)
{
    struct gsp_control *page =
        mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tap_require(page != MAP_FAILED);
    gsp_wire_control_init(page, GSP_VERSION);
    return page;
}

static const char *value_of(const struct gsp_control *page, enum gsp_setting_id id)
{
    static char out[GSP_CONTROL_VALUE];
    return gsp_wire_control_get(page, id, out) ? out : NULL;
}

TAP_TEST(defaults_are_valid)
{
    struct gsp_control *page = new_page();
    tap_check(gsp_wire__control_is_valid(page, sizeof(*page)));
    for (size_t i = 0; i < GSP_SET_COUNT; i++) {
        const struct gsp_wire_setting_row *row = gsp_wire_setting_row(i);
        tap_eq_str(checked((enum gsp_setting_id)i, row->fallback), row->fallback);
        tap_eq_str(value_of(page, (enum gsp_setting_id)i), row->fallback);
        tap_eq_int(gsp_wire_setting_row_find(gsp_sv_of(row->name)), i);
    }
    tap_check(gsp_wire_setting_row(GSP_SET_COUNT) == NULL);
}

TAP_TEST(patterns_are_checked)
{
    static const char *const good[] = {
        "",          "encoder", "^layers\\.[0-9]+$", "a{2,3}?b", "[]a]", "(?:a|b)*",
        "(?#\\)x)a", "a{",      "(?P<n>x)+",         "[^]\\]]+", "a|",   "x*+"};
    static const char *const bad[] = {"(",   "a)", "[a",  "[]",  "*a",   "a|*",  "^*",   "a**",
                                      "a\\", "(?", "{2}", "(?#", "x*?+", "\\b+", "[\\]", "((a)"};
    for (size_t i = 0; i < GSP_COUNT(good); i++) {
        tap_eq_str(checked(GSP_SET_torch_layers, good[i]), good[i]);
        tap_eq_str(checked(GSP_SET_stack_span, good[i]), good[i]);
    }
    for (size_t i = 0; i < GSP_COUNT(bad); i++)
        tap_check(checked(GSP_SET_torch_layers, bad[i]) == NULL);
}

TAP_TEST(names_with_and_without_prefix)
{
    tap_eq_int(gsp_wire_setting_row_find(gsp_sv_of("gsprof.torch.rate")), GSP_SET_torch_rate);
    tap_eq_int(gsp_wire_setting_row_find(gsp_sv_of("torch.rate")), GSP_SET_torch_rate);
    tap_check(gsp_wire_setting_row_find(gsp_sv_of("gsprof.")) < 0);
    tap_check(gsp_wire_setting_row_find(gsp_sv_of("")) < 0);
    tap_check(gsp_wire_setting_row_find(gsp_sv_of("torch.rat")) < 0);
    tap_check(gsp_wire_setting_row_find(gsp_sv_of("gsprof.gsprof.torch")) < 0);
}

TAP_TEST(numbers_are_plain_and_the_same_in_every_locale)
{
    /* Has no effect if the locale is not installed. */
    setlocale(LC_ALL, "de_DE.UTF-8");
    static const char *const good[][2] = {
        {"0.50", "0.5"},
        {".5", "0.5"},
        {"007", "7"},
        {"1.", "1"},
        {"0.0", "0"},
        {"00", "0"},
        {"0.1", "0.1"},
        {"999999999", "999999999"},
        {"1000000000", "1000000000"},
        {"0.000000000000001", "0.000000000000001"},
    };
    static const char *const bad[] = {"",
                                      ".",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1,5",
                                      "1e3",
                                      "0x1",
                                      "nan",
                                      "inf",
                                      "1.2.3",
                                      "one",
                                      "1\n",
                                      "0.0000000000000001",
                                      "9999999999999999"};
    for (size_t i = 0; i < GSP_COUNT(good); i++)
        tap_eq_str(checked(GSP_SET_sample_rate, good[i][0]), good[i][1]);
    for (size_t i = 0; i < GSP_COUNT(bad); i++)
        tap_eq_str(checked(GSP_SET_sample_rate, bad[i]), NULL);
    tap_eq_str(checked(GSP_SET_torch_rate, "1.0"), "1");
    tap_eq_str(checked(GSP_SET_torch_rate, "1.01"), NULL);
    tap_eq_str(checked(GSP_SET_torch_adaptive, "101"), NULL);
    tap_eq_str(checked(GSP_SET_sample_rate, "1000000001"), NULL);
    tap_eq_str(checked(GSP_SET_ring_rows, "10000000"), "10000000");
    tap_eq_str(checked(GSP_SET_ring_rows, "10000001"), NULL);
    tap_eq_str(checked(GSP_SET_ring_rows, "0.5"), NULL);
}

TAP_TEST(words_and_texts)
{
    char longest[GSP_CONTROL_VALUE + 1];
    tap_eq_str(checked(GSP_SET_torch, "yes"), "on");
    tap_eq_str(checked(GSP_SET_torch, "0"), "off");
    tap_eq_str(checked(GSP_SET_torch, "On"), NULL);
    tap_eq_str(checked(GSP_SET_torch, ""), NULL);
    tap_eq_str(checked(GSP_SET_torch_modules, "depth:12"), "depth:12");
    tap_eq_str(checked(GSP_SET_torch_modules, "depth:"), NULL);
    tap_eq_str(checked(GSP_SET_torch_modules, "leaves"), NULL);
    tap_eq_str(checked(GSP_SET_torch_shadow, "off"), "off");
    tap_eq_str(checked(GSP_SET_torch_shadow, "16:2"), "16:2");
    tap_eq_str(checked(GSP_SET_torch_shadow, "16:"), NULL);
    tap_eq_str(checked(GSP_SET_torch_shadow, "16"), NULL);
    tap_eq_str(checked(GSP_SET_torch_layers, "^(gr\xc3\xbc\xc3\x9f|\\d+)$"),
               "^(gr\xc3\xbc\xc3\x9f|\\d+)$");
    tap_eq_str(checked(GSP_SET_torch_layers, "a\nb"), NULL);
    tap_eq_str(checked(GSP_SET_torch_layers, "\xff"), NULL);
    memset(longest, 'x', sizeof(longest));
    longest[GSP_CONTROL_VALUE] = '\0';
    tap_eq_str(checked(GSP_SET_torch_layers, longest), NULL);
    longest[GSP_CONTROL_VALUE - 1] = '\0';
    tap_eq_str(checked(GSP_SET_torch_layers, longest), longest);
    char out[GSP_CONTROL_VALUE];
    tap_eq_int(gsp_wire_setting_row_check(GSP_SET_COUNT, gsp_sv_of("1"), out, NULL), GSP_E_USAGE);
}

TAP_TEST(a_value_round_trips)
{
    struct gsp_control *page = new_page();
    const uint64_t before = atomic_load(&page->serial);
    const uint64_t after = gsp_wire_control_set(page, GSP_SET_torch_layers, "encoder");
    tap_eq_int(after, before + 2);
    tap_eq_int(atomic_load(&page->serial), after);
    tap_eq_str(value_of(page, GSP_SET_torch_layers), "encoder");
    gsp_wire_control_set(page, GSP_SET_torch_layers, "");
    tap_eq_str(value_of(page, GSP_SET_torch_layers), "");
    tap_eq_int(gsp_wire_control_set(page, (enum gsp_setting_id)GSP_SET_COUNT, "x"), after + 2);
    tap_eq_str(value_of(page, (enum gsp_setting_id)GSP_SET_COUNT), NULL);
}

TAP_TEST(a_page_is_repaired_after_a_writer_died)
{
    struct gsp_control *page = new_page();
    gsp_wire_control_set(page, GSP_SET_torch_layers, "before");
    gsp_wire_control_set(page, GSP_SET_torch_rate, "0.5");
    atomic_fetch_add(&page->serial, 1);
    atomic_store(&page->writing, GSP_SET_torch_layers + 1);
    memcpy(page->value[GSP_SET_torch_layers], "aft", 3);
    tap_eq_str(value_of(page, GSP_SET_torch_layers), NULL);
    const uint64_t serial = gsp_wire_control_set(page, GSP_SET_torch, "on");
    tap_eq_int(serial & 1, 0);
    tap_eq_str(value_of(page, GSP_SET_torch), "on");
    tap_eq_str(value_of(page, GSP_SET_torch_layers), "");
    tap_eq_str(value_of(page, GSP_SET_torch_rate), "0.5");
    /* The writer may have died before it set `writing`. */
    atomic_fetch_add(&page->serial, 1);
    memcpy(page->value[GSP_SET_torch_rate], "zzz", 4);
    gsp_wire_control_set(page, GSP_SET_torch, "off");
    tap_eq_str(value_of(page, GSP_SET_torch_rate), "1");
}

TAP_TEST(a_hostile_page)
{
    struct gsp_control *page = new_page();
    memset(page->value, 'x', sizeof(page->value));
    tap_eq_int(strlen(value_of(page, GSP_SET_torch)), GSP_CONTROL_VALUE - 1);
    atomic_store(&page->serial, UINT64_MAX);
    atomic_store(&page->writing, UINT32_MAX);
    tap_eq_str(value_of(page, GSP_SET_torch), NULL);
    tap_eq_int(gsp_wire_control_set(page, GSP_SET_torch, "on"), 0);
    tap_eq_str(value_of(page, GSP_SET_torch), "on");
    tap_check(!gsp_wire__control_is_valid(page, sizeof(*page) - 1));
    memset(page->agent, 'x', sizeof(page->agent));
    tap_check(!gsp_wire__control_is_valid(page, sizeof(*page)));
    gsp_wire_control_init(page, "a version that is far too long to be kept in the page");
    tap_check(gsp_wire__control_is_valid(page, sizeof(*page)));
    page->count = GSP_CONTROL_MAX + 1;
    tap_check(!gsp_wire__control_is_valid(page, sizeof(*page)));
    gsp_wire_control_init(page, "1");
    page->version++;
    tap_check(!gsp_wire__control_is_valid(page, sizeof(*page)));
    gsp_wire_control_init(page, "1");
    page->magic[7] = '2';
    tap_check(!gsp_wire__control_is_valid(page, sizeof(*page)));
}

/* All bytes of a value are the same, so that a torn value is detected. */
static void fill_value(char out[GSP_CONTROL_VALUE], char c)
{
    memset(out, c, GSP_CONTROL_VALUE - 1);
    out[GSP_CONTROL_VALUE - 1] = '\0';
}

static bool is_whole(const char *value)
{
    const size_t len = strlen(value);
    return len == 0 ||
           (len == GSP_CONTROL_VALUE - 1 && strspn(value, (const char[]){value[0], '\0'}) == len);
}

struct readers {
    struct gsp_control *page;
    atomic_bool stop;
    _Atomic uint64_t whole;
    _Atomic uint64_t torn;
};

static void *read_values(void *arg)
{
    struct readers *readers = arg;
    char value[GSP_CONTROL_VALUE];
    while (!atomic_load(&readers->stop)) {
        if (!gsp_wire_control_get(readers->page, GSP_SET_torch_layers, value))
            continue;
        atomic_fetch_add(is_whole(value) ? &readers->whole : &readers->torn, 1);
    }
    return NULL;
}

TAP_TEST(readers_see_whole_values)
{
    struct readers readers = {.page = new_page()};
    pthread_t threads[3];
    char value[GSP_CONTROL_VALUE];
    for (size_t i = 0; i < GSP_COUNT(threads); i++)
        tap_require(pthread_create(&threads[i], NULL, read_values, &readers) == 0);
    for (unsigned n = 0; n < 20000 || atomic_load(&readers.whole) < 100; n++) {
        fill_value(value, (char)('a' + n % 26));
        gsp_wire_control_set(readers.page, GSP_SET_torch_layers, value);
        /* Readers on a machine with one core need a moment without a writer. */
        if (n % 64 == 0)
            sched_yield();
    }
    atomic_store(&readers.stop, true);
    for (size_t i = 0; i < GSP_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    tap_eq_int(atomic_load(&readers.torn), 0);
}

TAP_TEST(killed_writers_leave_no_torn_value)
{
    struct gsp_control *page = new_page();
    for (int round = 0; round < 50; round++) {
        const uint64_t before = atomic_load(&page->serial);
        const pid_t pid = fork();
        if (pid == 0) {
            char value[GSP_CONTROL_VALUE];
            for (unsigned n = 0;; n++) {
                fill_value(value, (char)('a' + n % 26));
                gsp_wire_control_set(page, GSP_SET_torch_layers, value);
            }
        }
        tap_require(pid > 0);
        while (atomic_load(&page->serial) < before + 100)
            sched_yield();
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        gsp_wire_control_set(page, GSP_SET_torch, "on");
        tap_require(value_of(page, GSP_SET_torch_layers) != NULL);
        tap_check(is_whole(value_of(page, GSP_SET_torch_layers)));
    }
}

/* ---------------------------------------------------------------------------------------- file */

static char folder_path[] = "/tmp/gsprof-control-XXXXXX";

static int new_folder(void)
{
    tap_require(mkdtemp(folder_path) != NULL);
    const int fd = open(folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tap_require(fd >= 0);
    return fd;
}

static int new_file(int folder, const struct gsp_control *page, size_t bytes)
{
    const int fd = openat(folder, GSP_CONTROL_FILE, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    tap_require(fd >= 0 && write(fd, page, bytes) == (ssize_t)bytes);
    return fd;
}

static void remove_folder(int folder)
{
    unlinkat(folder, GSP_CONTROL_FILE, 0);
    close(folder);
    tap_check(rmdir(folder_path) == 0);
}

TAP_TEST(another_process_reads_and_changes_a_page)
{
    const int folder = new_folder();
    struct gsp_control *page = new_page();
    const int file = new_file(folder, page, sizeof(*page));
    static struct gsp_control copy;
    const struct gsp_control_change changes[] = {{GSP_SET_torch, "on"},
                                                 {GSP_SET_torch_rate, "0.5"}};
    uint64_t serial = 0;
    tap_eq_int(gsp_wire_control_write(folder, changes, 2, &serial, NULL), 0);
    tap_eq_int(gsp_wire_control_read(folder, &copy, NULL), 0);
    tap_eq_int(atomic_load(&copy.serial), serial);
    tap_eq_str(value_of(&copy, GSP_SET_torch), "on");
    tap_eq_str(value_of(&copy, GSP_SET_torch_rate), "0.5");
    close(file);
    remove_folder(folder);
}

TAP_TEST(invalid_files_are_rejected)
{
    const int folder = new_folder();
    struct gsp_control *page = new_page();
    static struct gsp_control copy;
    const struct gsp_control_change change = {GSP_SET_torch, "on"};
    uint64_t serial = 0;
    tap_eq_int(gsp_wire_control_read(folder, &copy, NULL), GSP_E_NOFILE);
    tap_eq_int(gsp_wire_control_write(folder, &change, 1, &serial, NULL), GSP_E_NOFILE);
    close(new_file(folder, page, sizeof(*page) - 1));
    tap_eq_int(gsp_wire_control_read(folder, &copy, NULL), GSP_E_FORMAT);
    tap_eq_int(gsp_wire_control_write(folder, &change, 1, &serial, NULL), GSP_E_FORMAT);
    page->magic[0] = 'X';
    close(new_file(folder, page, sizeof(*page)));
    tap_eq_int(gsp_wire_control_read(folder, &copy, NULL), GSP_E_FORMAT);
    tap_eq_int(gsp_wire_control_write(folder, &change, 1, &serial, NULL), GSP_E_FORMAT);
    gsp_wire_control_init(page, "9.9.9");
    close(new_file(folder, page, sizeof(*page)));
    tap_eq_int(gsp_wire_control_write(folder, &change, 1, &serial, NULL), GSP_E_VERSION);
    atomic_store(&page->serial, 1);
    close(new_file(folder, page, sizeof(*page)));
    tap_eq_int(gsp_wire_control_read(folder, &copy, NULL), GSP_E_TORN);
    unlinkat(folder, GSP_CONTROL_FILE, 0);
    tap_require(symlinkat("/etc/passwd", folder, GSP_CONTROL_FILE) == 0);
    tap_check(gsp_wire_control_read(folder, &copy, NULL) < 0);
    unlinkat(folder, GSP_CONTROL_FILE, 0);
    /* Opening a FIFO must not wait for its other end. */
    tap_require(mkfifoat(folder, GSP_CONTROL_FILE, 0600) == 0);
    tap_eq_int(gsp_wire_control_read(folder, &copy, NULL), GSP_E_FORMAT);
    remove_folder(folder);
}

TAP_TEST(waiting_for_the_lock_times_out)
{
    const int folder = new_folder();
    const int file = new_file(folder, new_page(), sizeof(struct gsp_control));
    const struct gsp_control_change change = {GSP_SET_torch, "on"};
    uint64_t serial = 0;
    tap_require(flock(file, LOCK_EX) == 0);
    tap_eq_int(gsp_wire_control_write(folder, &change, 1, &serial, NULL), GSP_E_TIMEOUT);
    flock(file, LOCK_UN);
    tap_eq_int(gsp_wire_control_write(folder, &change, 1, &serial, NULL), 0);
    close(file);
    remove_folder(folder);
}

TAP_MAIN()
