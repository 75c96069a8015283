/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "base/file.h"
#include "record/launch.h"
#include "record/output_file.h"
#include "tap.h"
#include "tree_fixture.h"

static int run(const char *program, const char *arg1, const char *arg2, int *status)
{
    struct gsp_launch launch;
    struct gsp_err err = {0};
    char words[3][64];
    snprintf(words[0], sizeof(words[0]), "%s", program);
    snprintf(words[1], sizeof(words[1]), "%s", arg1);
    snprintf(words[2], sizeof(words[2]), "%s", arg2);
    char *argv[] = {words[0], words[1], words[2], NULL};
    tap_eq_int(gsp_record_launch_new(&launch, argv, &err), GSP_OK);
    tap_check(launch.pid > 0);
    tap_check(gsp_record_launch_is_running(&launch));
    int rc = gsp_record_launch_go(&launch, program, &err);
    tap_eq_int(rc, err.code);
    *status = gsp_record_launch_wait(&launch);
    return rc;
}

TAP_TEST(status_is_passed_through)
{
    int status = -1;
    tap_eq_int(run("sh", "-c", "exit 0", &status), GSP_OK);
    tap_eq_int(status, 0);
    tap_eq_int(run("sh", "-c", "exit 42", &status), GSP_OK);
    tap_eq_int(status, 42);
    tap_eq_int(run("sh", "-c", "kill -TERM $$", &status), GSP_OK);
    tap_eq_int(status, 128 + SIGTERM);
}

TAP_TEST(cannot_start)
{
    int status = -1;
    tap_eq_int(run("/nonexistent/program", "", "", &status), GSP_E_NOEXEC);
    tap_eq_int(run("/tmp", "", "", &status), GSP_E_NOEXEC);
}

/* A child that still waits never executes its program. */
TAP_TEST(abort_starts_nothing)
{
    struct tree tree;
    struct gsp_launch launch;
    struct gsp_err err = {0};
    char path[128];
    tree_new(&tree);
    snprintf(path, sizeof(path), "%s/made", tree.root);
    char program[] = "touch";
    char *argv[] = {program, path, NULL};
    tap_eq_int(gsp_record_launch_new(&launch, argv, &err), GSP_OK);
    gsp_record_launch_abort(&launch);
    tap_check(access(path, F_OK) != 0);
    tap_eq_int(launch.pid, 0);
    gsp_record_launch_abort(&launch); /* the second call does nothing */
    tree_free(&tree);
}

TAP_TEST(caller_of_sudo)
{
    uid_t uid = 0;
    gid_t gid = 0;
    setenv("SUDO_UID", "1234", 1);
    setenv("SUDO_GID", "5678", 1);
    bool is_root = geteuid() == 0;
    tap_eq_int(gsp_record__launch_sudo_caller(&uid, &gid), is_root);
    if (is_root) {
        tap_eq_int(uid, 1234);
        tap_eq_int(gid, 5678);
    }
    setenv("SUDO_UID", "0", 1);
    tap_check(!gsp_record__launch_sudo_caller(&uid, &gid));
    setenv("SUDO_UID", "-5", 1);
    tap_check(!gsp_record__launch_sudo_caller(&uid, &gid));
    setenv("SUDO_UID", "x", 1);
    tap_check(!gsp_record__launch_sudo_caller(&uid, &gid));
}

static void path_in(const struct tree *tree, const char *name, char *out, size_t cap)
{
    snprintf(out, cap, "%s/%s", tree->root, name);
}

TAP_TEST(hidden_stream_next_to_the_output)
{
    struct tree tree;
    struct gsp_output_file file;
    struct gsp_err err = {0};
    char output[128];
    char hidden[128];
    tree_new(&tree);
    path_in(&tree, "p.svg", output, sizeof(output));
    path_in(&tree, ".p.svg.gsp", hidden, sizeof(hidden));
    const struct gsp_format *svg = gsp_export_format_find("svg");
    tap_eq_int(gsp_record_output_file_open(&file, output, svg, false, &err), GSP_OK);
    tap_eq_str(file.stream_path, hidden);
    tap_eq_int(access(hidden, F_OK), 0);
    tap_check(access(output, F_OK) != 0);

    /* The next recorder keeps the file of a killed one. */
    struct gsp_output_file second;
    tap_eq_int(gsp_record_output_file_open(&second, output, svg, false, &err), GSP_OK);
    tap_check(strcmp(second.stream_path, hidden) != 0);
    gsp_record_output_file_discard(&second);
    gsp_record_output_file_discard(&file);
    tap_check(access(hidden, F_OK) != 0);
    tree_free(&tree);
}

TAP_TEST(gsp_output_is_the_stream)
{
    struct tree tree;
    struct gsp_output_file file;
    struct gsp_err err = {0};
    struct gsp_view_options view = {0};
    char output[128];
    tree_new(&tree);
    path_in(&tree, "p.gsp", output, sizeof(output));
    const struct gsp_format *gsp = gsp_export_format_find("gsp");
    tap_eq_int(gsp_record_output_file_open(&file, output, gsp, false, &err), GSP_OK);
    tap_eq_str(file.stream_path, output);
    tap_eq_int(gsp_record_output_file_replace_old(&file, &err), GSP_OK);
    tap_eq_int(gsp_record_output_file_finish(&file, &view, &err), GSP_OK);
    gsp_record_output_file_free(&file);
    tap_eq_int(access(output, F_OK), 0);
    tap_eq_int(gsp_record_output_file_open(&file, output, gsp, false, &err), GSP_E_EXISTS);
    tree_free(&tree);
}

/* With --force the old file stays until the target is attached. */
TAP_TEST(force_keeps_the_old_file_at_first)
{
    struct tree tree;
    struct gsp_output_file file;
    struct gsp_err err = {0};
    struct stat info;
    char output[128];
    tree_new(&tree);
    tree_put(&tree, "/p.gsp", "precious");
    path_in(&tree, "p.gsp", output, sizeof(output));
    const struct gsp_format *gsp = gsp_export_format_find("gsp");
    tap_eq_int(gsp_record_output_file_open(&file, output, gsp, true, &err), GSP_OK);
    tap_eq_int(stat(output, &info), 0);
    tap_eq_int(info.st_size, 8);
    gsp_record_output_file_discard(&file);
    tap_eq_int(stat(output, &info), 0);
    tap_eq_int(info.st_size, 8);

    tap_eq_int(gsp_record_output_file_open(&file, output, gsp, true, &err), GSP_OK);
    tap_eq_int(gsp_record_output_file_replace_old(&file, &err), GSP_OK);
    tap_eq_str(file.stream_path, output);
    tap_eq_int(stat(output, &info), 0);
    tap_eq_int(info.st_size, 0);
    gsp_record_output_file_free(&file);
    tree_free(&tree);
}

TAP_TEST(invalid_outputs)
{
    struct tree tree;
    struct gsp_output_file file;
    struct gsp_err err = {0};
    tree_new(&tree);
    const struct gsp_format *svg = gsp_export_format_find("svg");
    tap_eq_int(gsp_record_output_file_open(&file, "/nonexistent/p.svg", svg, false, &err),
               GSP_E_NOWRITE);
    tap_eq_int(gsp_record_output_file_open(&file, tree.root, svg, false, &err), GSP_E_EXISTS);
    tap_eq_int(gsp_record_output_file_open(&file, tree.root, svg, true, &err), GSP_E_NOWRITE);
    /* A rename would replace the device by a file. */
    tap_eq_int(gsp_record_output_file_open(&file, "/dev/null", svg, true, &err), GSP_E_NOWRITE);
    tap_eq_int(file.fd, -1);
    tree_free(&tree);
}

/* If the conversion fails, the stream stays. */
TAP_TEST(failed_conversion_keeps_the_stream)
{
    struct tree tree;
    struct gsp_output_file file;
    struct gsp_err err = {0};
    struct gsp_view_options view = {0};
    char output[128];
    char hidden[128];
    tree_new(&tree);
    path_in(&tree, "p.svg", output, sizeof(output));
    path_in(&tree, ".p.svg.gsp", hidden, sizeof(hidden));
    tap_eq_int(
        gsp_record_output_file_open(&file, output, gsp_export_format_find("svg"), false, &err),
        GSP_OK);
    tap_eq_int(gsp_fd_write_all(file.fd, "no profile", 10, &err), GSP_OK);
    tap_check(gsp_record_output_file_finish(&file, &view, &err) < 0);
    tap_eq_int(access(hidden, F_OK), 0);
    tap_check(access(output, F_OK) != 0);
    gsp_record_output_file_free(&file);
    tree_free(&tree);
}

TAP_MAIN()
