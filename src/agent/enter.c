/* SPDX-License-Identifier: Apache-2.0 */
/*
 * enter.c -- the entry point for the injector. The injector borrows a thread of the target for a
 * moment, so a new thread does the work. That thread ends afterwards, because os.fork() warns about
 * threads that Python does not know.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/run_script.h"
#include "base/file.h"
#include "base/thread.h"

struct request {
    char *script;  /* NULL: none */
    char *outcome; /* NULL: do not write an outcome */
    struct gsp_agent__script_outcome said;
};

static void free_request(struct request *request)
{
    free(request->script);
    free(request->outcome);
    gsp_buf_free(&request->said.file);
    gsp_buf_free(&request->said.text);
    free(request);
}

static const char *start_fault(enum gsp_agent_rc rc)
{
    switch (rc) {
    case GSP_AGENT_NO_SPACE:
        return "error no space for rings: shared memory is full, read-only or of another user";
    case GSP_AGENT_NO_MEMORY:
        return "error out of memory";
    case GSP_AGENT_OTHER:
        return "error another copy of the agent is loaded in this process";
    case GSP_AGENT_OK:
        break;
    }
    return NULL;
}

/* Writes the file complete or not at all. */
static void write_file(const char *path, const char *text, size_t len)
{
    struct gsp_newfile file;
    if (gsp_newfile_open(&file, path, true, NULL) != 0)
        return;
    file.lazy = true;
    if (gsp_fd_write_all(file.fd, text, len, NULL) == 0) {
        /* An error cannot be reported. */
        gsp_ignore(gsp_newfile_commit(&file, NULL));
        return;
    }
    gsp_newfile_abort(&file);
}

static void write_outcome(void *arg)
{
    struct request *request = arg;
    struct gsp_agent__script_outcome *said = &request->said;
    const char *file = said->file.len > 0 ? gsp_buf_cstr(&said->file) : NULL;
    if (file && !said->text.failed)
        write_file(file, said->text.p, said->text.len);
    if (request->outcome) {
        const size_t len = strnlen(said->line, sizeof(said->line) - 1);
        said->line[len] = '\n';
        write_file(request->outcome, said->line, len + 1);
    }
    free_request(request);
}

/* Sets the default rounding and exceptions of floating point: a thread inherits those of the thread
 * that starts it, which the injector borrowed in the middle of a computation. */
static void reset_float_mode(void)
{
#if defined(__x86_64__)
    static const uint32_t vectors = 0x1f80;
    static const uint16_t x87 = 0x37f;
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(vectors), "m"(x87));
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, xzr");
#endif
}

static void *run(void *arg)
{
    struct request *request = arg;
    reset_float_mode();
    struct gsp_agent__script_outcome *said = &request->said;
    /* An interpreter that is shutting down ends threads that request the GIL. */
    pthread_cleanup_push(write_outcome, request);
    const char *fault = start_fault(gsp_agent_start());
    if (!fault && request->script)
        gsp_agent__python_run(request->script, said);
    else
        snprintf(said->line, sizeof(said->line), "%s", fault ? fault : "ok");
    pthread_cleanup_pop(1);
    return NULL;
}

/* Blocks signals in the new thread, because the program's own threads handle them. Not those of its
 * own faults: the program may have a handler for them. */
static int start_thread(struct request *request)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t blocked;
    sigset_t before;
    if (pthread_attr_init(&attr) != 0)
        return -1;
    gsp_thread_async_signals(&blocked);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    const int rc = pthread_create(&thread, &attr, run, request);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc == 0 ? 0 : -1;
}

void gsp_agent_enter(const char *script, const char *outcome, int *rc)
{
    const int saved_errno = errno;
    struct request *request = calloc(1, sizeof(*request));
    *rc = -1;
    if (request) {
        request->script = script ? strdup(script) : NULL;
        request->outcome = outcome ? strdup(outcome) : NULL;
        if ((!script || request->script) && (!outcome || request->outcome))
            *rc = start_thread(request);
        if (*rc != 0)
            free_request(request);
    }
    errno = saved_errno;
}
