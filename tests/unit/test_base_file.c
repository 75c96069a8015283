/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tap.h"

static char folder[64];

/* Changes to a new folder. The names below are relative to it. */
static void enter_folder(void)
{
    snprintf(folder, sizeof(folder), "/tmp/gsp-test-XXXXXX");
    tap_require(mkdtemp(folder) != NULL);
    tap_require(chdir(folder) == 0);
}

/* Removes the folder and its files. Returns the number of files. */
static int leave_folder(void)
{
    int count = 0;
    DIR *dir = opendir(".");
    tap_require(dir != NULL);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        remove(entry->d_name);
    }
    closedir(dir);
    rmdir(folder);
    return count;
}

static void write_file(const char *path, const char *text)
{
    gsp_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    tap_require(fd >= 0 && gsp_fd_write_all(fd, text, strlen(text), NULL) == 0);
}

static void check_content(const char *path, const char *expected)
{
    gsp_auto_buf buf = {0};
    tap_eq_int(gsp_file_read(path, 1000, &buf, NULL), 0);
    tap_eq_str(gsp_buf_cstr(&buf), expected);
}

TAP_TEST(reads_files_and_proc)
{
    gsp_auto_buf buf = {0};
    struct gsp_err err = {0};
    tap_eq_int(gsp_file_read("/proc/self/status", 1 << 20, &buf, &err), 0);
    tap_check(gsp_sv_starts(gsp_buf_sv(&buf), "Name:"));
}

TAP_TEST(reads_at_an_offset)
{
    char text[8] = "";
    gsp_auto_fd fd = memfd_create("test", MFD_CLOEXEC);
    tap_require(fd >= 0 && gsp_fd_write_all(fd, "0123456789", 10, NULL) == 0);
    tap_eq_int(gsp_fd_read_at(fd, text, 4, 3), 4);
    tap_eq_str(text, "3456");
    tap_eq_int(gsp_fd_read_at(fd, text, 4, 8), 2); /* the end of the file */
    tap_eq_int(gsp_fd_read_at(fd, text, 4, 10), 0);
    tap_eq_int(gsp_fd_read_at(-1, text, 4, 0), -1);
}

TAP_TEST(read_failures_have_distinct_codes)
{
    gsp_auto_buf buf = {0};
    struct gsp_err err = {0};
    tap_eq_int(gsp_file_read("/nowhere/at/all", 10, &buf, &err), GSP_E_NOFILE);
    tap_eq_int(err.sys, ENOENT);
    tap_check(strstr(err.msg, "/nowhere/at/all") != NULL);
    tap_eq_int(gsp_file_read("/", 10, &buf, &err), GSP_E_IO);
    tap_eq_int(gsp_file_read("/dev/zero", 100000, &buf, &err), GSP_E_FORMAT);
    if (geteuid() == 0)
        return;
    tap_eq_int(gsp_file_read("/etc/shadow", 100000, &buf, &err), GSP_E_PERM);
}

TAP_TEST(limit_is_inclusive)
{
    enter_folder();
    write_file("five", "12345");
    gsp_auto_buf buf = {0};
    tap_eq_int(gsp_file_read("five", 5, &buf, NULL), 0);
    gsp_buf_clear(&buf);
    tap_eq_int(gsp_file_read("five", 4, &buf, NULL), GSP_E_LIMIT);
    leave_folder();
}

TAP_TEST(new_file_appears_at_commit)
{
    enter_folder();
    struct gsp_newfile file;
    tap_require(gsp_newfile_open(&file, "out", false, NULL) == 0);
    tap_eq_int(gsp_fd_write_all(file.fd, "hello", 5, NULL), 0);
    tap_check(access("out", F_OK) != 0);
    tap_eq_int(gsp_newfile_commit(&file, NULL), 0);
    check_content("out", "hello");
    gsp_newfile_abort(&file);
    check_content("out", "hello");
    tap_eq_int(leave_folder(), 1);
}

TAP_TEST(existing_file_is_rejected_at_open)
{
    enter_folder();
    write_file("out", "old");
    struct gsp_newfile file;
    struct gsp_err err = {0};
    tap_eq_int(gsp_newfile_open(&file, "out", false, &err), GSP_E_EXISTS);
    tap_eq_int(file.fd, -1);
    check_content("out", "old");
    tap_eq_int(leave_folder(), 1);
}

TAP_TEST(file_created_before_commit_is_kept)
{
    enter_folder();
    struct gsp_newfile file;
    tap_require(gsp_newfile_open(&file, "out", false, NULL) == 0);
    write_file("out", "theirs");
    tap_eq_int(gsp_newfile_commit(&file, NULL), GSP_E_EXISTS);
    check_content("out", "theirs");
    tap_eq_int(leave_folder(), 1);
}

TAP_TEST(replace_keeps_the_old_content_until_commit_and_the_mode)
{
    enter_folder();
    umask(022);
    write_file("out", "old");
    tap_eq_int(chmod("out", 0600), 0);
    struct gsp_newfile file;
    tap_require(gsp_newfile_open(&file, "out", true, NULL) == 0);
    tap_eq_int(gsp_fd_write_all(file.fd, "new", 3, NULL), 0);
    check_content("out", "old");
    tap_eq_int(gsp_newfile_commit(&file, NULL), 0);
    check_content("out", "new");
    struct stat st;
    tap_eq_int(stat("out", &st), 0);
    tap_eq_int(st.st_mode & 0777, 0600);
    tap_eq_int(leave_folder(), 1);
}

TAP_TEST(abort_leaves_nothing)
{
    enter_folder();
    struct gsp_newfile file;
    tap_require(gsp_newfile_open(&file, "out", false, NULL) == 0);
    tap_eq_int(gsp_fd_write_all(file.fd, "half", 4, NULL), 0);
    gsp_newfile_abort(&file);
    gsp_newfile_abort(&file);
    tap_eq_int(leave_folder(), 0);
}

TAP_TEST(link_is_followed)
{
    enter_folder();
    write_file("real", "old");
    tap_eq_int(symlink("real", "link"), 0);
    struct gsp_newfile file;
    tap_require(gsp_newfile_open(&file, "link", true, NULL) == 0);
    tap_eq_int(gsp_fd_write_all(file.fd, "new", 3, NULL), 0);
    tap_eq_int(gsp_newfile_commit(&file, NULL), 0);
    check_content("real", "new");
    struct stat st;
    tap_check(lstat("link", &st) == 0 && S_ISLNK(st.st_mode));
    tap_eq_int(leave_folder(), 2);
}

TAP_TEST(dangling_link_counts_as_existing)
{
    enter_folder();
    tap_eq_int(symlink("gone", "link"), 0);
    struct gsp_newfile file;
    tap_eq_int(gsp_newfile_open(&file, "link", false, NULL), GSP_E_EXISTS);
    tap_require(gsp_newfile_open(&file, "link", true, NULL) == 0);
    tap_eq_int(gsp_newfile_commit(&file, NULL), 0);
    check_content("link", "");
    tap_eq_int(leave_folder(), 1);
}

TAP_TEST(unwritable_paths_are_rejected_at_open)
{
    struct gsp_newfile file;
    struct gsp_err err = {0};
    tap_eq_int(gsp_newfile_open(&file, "/nowhere/out", false, &err), GSP_E_NOWRITE);
    tap_check(strstr(err.msg, "/nowhere/out") != NULL);
    tap_eq_int(gsp_newfile_open(&file, "/tmp", true, &err), GSP_E_NOWRITE);
    tap_eq_int(err.sys, EISDIR);
    tap_eq_int(gsp_newfile_open(&file, "", true, &err), GSP_E_NOWRITE);
}

TAP_TEST(devices_are_not_replaced)
{
    struct gsp_newfile file;
    tap_require(gsp_newfile_open(&file, "/dev/null", false, NULL) == 0);
    tap_check(file.tmp_path == NULL);
    tap_eq_int(gsp_fd_write_all(file.fd, "x", 1, NULL), 0);
    tap_eq_int(gsp_newfile_commit(&file, NULL), 0);
    struct stat st;
    tap_check(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
}

TAP_TEST(dash_is_stdout)
{
    enter_folder();
    write_file("out", "");
    gsp_auto_fd fd = open("out", O_WRONLY | O_CLOEXEC);
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    tap_require(fd >= 0 && saved >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
    struct gsp_newfile file;
    int rc = gsp_newfile_open(&file, "-", false, NULL);
    rc = rc ? rc : gsp_fd_write_all(file.fd, "to stdout", 9, NULL);
    rc = rc ? rc : gsp_newfile_commit(&file, NULL);
    bool still_open = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
    dup2(saved, STDOUT_FILENO);
    close(saved);
    tap_eq_int(rc, 0);
    tap_check(still_open);
    check_content("out", "to stdout");
    tap_eq_int(leave_folder(), 1);
}

TAP_TEST(stream_counts_and_finishes)
{
    enter_folder();
    gsp_auto_fd fd = open("out", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    tap_require(fd >= 0);
    struct gsp_out out;
    gsp_out_init(&out, fd);
    for (int i = 0; i < 100000; i++) {
        gsp_buf_puts(&out.buf, "0123456789");
        gsp_out_spill(&out);
        tap_require(out.buf.len <= 65536);
    }
    tap_eq_int(gsp_out_finish(&out, NULL), 0);
    tap_eq_int(out.done, 1000000);
    struct stat st;
    tap_check(stat("out", &st) == 0 && st.st_size == 1000000);
    leave_folder();
}

TAP_TEST(full_disk_is_reported_by_finish)
{
    gsp_auto_fd fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        tap_skip("needs /dev/full");
    struct gsp_out out;
    gsp_out_init(&out, fd);
    for (int i = 0; i < 50000; i++) {
        gsp_buf_puts(&out.buf, "0123456789");
        gsp_out_spill(&out);
    }
    tap_eq_int(out.failed, GSP_E_IO);
    struct gsp_err err = {0};
    tap_eq_int(gsp_out_finish(&out, &err), GSP_E_IO);
    tap_eq_int(err.sys, ENOSPC);
    tap_eq_int(out.done, 0);
}

TAP_TEST(broken_pipe_is_an_error)
{
    signal(SIGPIPE, SIG_IGN);
    int ends[2];
    tap_require(pipe2(ends, O_CLOEXEC) == 0);
    close(ends[0]);
    struct gsp_err err = {0};
    tap_eq_int(gsp_fd_write_all(ends[1], "x", 1, &err), GSP_E_IO);
    tap_eq_int(err.sys, EPIPE);
    close(ends[1]);
}

TAP_TEST(write_waits_for_non_blocking_output)
{
    int ends[2];
    tap_require(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    static char block[1 << 20];
    memset(block, 'x', sizeof(block));
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        _exit(gsp_fd_write_all(ends[1], block, sizeof(block), NULL) == 0 ? 0 : 1);
    }
    close(ends[1]);
    tap_eq_int(fcntl(ends[0], F_SETFL, 0), 0);
    gsp_auto_buf buf = {0};
    tap_eq_int(gsp_fd_read_all(ends[0], sizeof(block), &buf, NULL), 0);
    tap_eq_int(buf.len, sizeof(block));
    int status = -1;
    waitpid(pid, &status, 0);
    tap_eq_int(status, 0);
    close(ends[0]);
}

TAP_MAIN()
