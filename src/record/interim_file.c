/* SPDX-License-Identifier: Apache-2.0 */
#include "record/interim_file.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "source/profile_file.h"

/* "profile.svg" and 1 give "profile.1.svg": the extension stays. */
static void name_file(struct gsp_interim_file *interim, const struct gsp_output_file *file)
{
    size_t len = strlen(file->output);
    size_t tail = 0;
    for (size_t i = 0; i < GSP_COUNT(file->format->extensions); i++) {
        const char *extension = file->format->extensions[i];
        size_t n = extension ? strlen(extension) : 0;
        if (n > tail && n < len && strcmp(file->output + len - n, extension) == 0)
            tail = n;
    }
    snprintf(interim->path, sizeof(interim->path), "%.*s.%u%s", (int)(len - tail), file->output,
             interim->number, file->output + len - tail);
}

/* Runs in the child. Returns its exit status. */
static int convert(const struct gsp_interim_file *interim, const struct gsp_output_file *file,
                   const struct gsp_view_options *view)
{
    struct gsp_profile *profile = NULL;
    bool keep = file->format->needs_samples || strcmp(file->format->name, "gsp") == 0;
    int rc = gsp_export_format_load(file->stream_path, gsp_export_format_find("gsp"), keep,
                                    &profile, NULL);
    if (rc == GSP_OK) {
        gsp_model_profile_meta(profile)->truncated = false; /* complete up to now */
        if (view->by_function || view->no_lines)
            gsp_model_profile_merge_lines(profile, view->by_function);
        rc = gsp_export_format_save(interim->path, file->format, profile, view, true, NULL);
    }
    gsp_model_profile_free(profile);
    return gsp_err_exit_status(rc);
}

int gsp_record_interim_file_start(struct gsp_interim_file *interim,
                                  const struct gsp_output_file *file,
                                  const struct gsp_view_options *view, struct gsp_err *err)
{
    if (strcmp(file->output, "-") == 0)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "no interim file: the output is stdout");
    if (gsp_source_is_run(file->format))
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "no interim file: %.160s has the samples so far",
                           file->stream_path);
    interim->number++;
    name_file(interim, file);
    pid_t pid = fork();
    if (pid < 0)
        return gsp_err_set(err, GSP_E_IO, errno, "no interim file: %s", strerror(errno));
    if (pid == 0) {
        static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
        for (size_t i = 0; i < GSP_COUNT(signals); i++)
            signal(signals[i], SIG_IGN); /* Ctrl-C is for the recorder */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(convert(interim, file, view));
    }
    interim->writer = pid;
    return GSP_OK;
}

bool gsp_record_interim_file_is_done(struct gsp_interim_file *interim, bool wait, bool *ok)
{
    int status = 0;
    pid_t pid;
    if (interim->writer == 0)
        return false;
    do
        pid = waitpid(interim->writer, &status, wait ? 0 : WNOHANG);
    while (pid < 0 && errno == EINTR);
    if (pid == 0)
        return false;
    *ok = pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    interim->writer = 0;
    return true;
}
