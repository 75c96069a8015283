/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/time.h"
#include "digest/digest_internal.h"
#include "digest/verdict.h"
#include "export/format.h"
#include "model/words.h"

static int no_memory(struct gsp_err *err)
{
    return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a report");
}

static int new_digest(enum gsp_digest_kind kind, const char *name, struct gsp_digest **out,
                      struct gsp_err *err)
{
    struct gsp_digest *digest = calloc(1, sizeof(*digest));
    *out = digest;
    if (!digest)
        return no_memory(err);
    struct gsp_sv text = gsp_sv_of(name ? name : "");
    while (text.len > 1 && text.p[text.len - 1] == '/')
        text.len--;
    digest->kind = kind;
    digest->name = gsp_digest__keep(digest, gsp_sv_basename(text));
    digest->title = digest->name;
    digest->duration_s = NAN;
    digest->period_s = NAN;
    digest->memory = (struct gsp_digest_memory){.peak_rss_bytes = NAN, .growth_bytes_per_s = NAN};
    return GSP_OK;
}

/* Hands out a digest that is whole, or frees it. */
static int finish(struct gsp_digest *digest, int rc, struct gsp_digest **out, struct gsp_err *err)
{
    if (rc == GSP_OK)
        rc = gsp_digest_judge(digest, err);
    if (rc == GSP_OK && digest->no_memory)
        rc = no_memory(err);
    if (rc < 0) {
        gsp_digest_free(digest);
        return rc;
    }
    *out = digest;
    return GSP_OK;
}

/* Samples that a recorder lost, one row a cause. */
static void add_losses(struct gsp_digest *digest, const struct gsp_profile_meta *meta)
{
    const struct gsp_losses *losses = &meta->losses;
    gsp_digest__loss(digest, "samples", gsp_sv_of("the stack changed while it was read"),
                     losses->torn);
    gsp_digest__loss(digest, "samples", gsp_sv_of("the sampler came too late"), losses->late);
    gsp_digest__loss(digest, "samples", gsp_sv_of("memory could not be read"), losses->failed);
    gsp_digest__loss(digest, "processes", gsp_sv_of("they ended under the sampler's hands"),
                     losses->gone);
    gsp_digest__loss(digest, "processes", gsp_sv_of("they are not Python"), losses->skipped);
    gsp_digest__loss(digest, "stacks", gsp_sv_of("native and Python frames did not fit together"),
                     losses->unmerged);
    if (meta->truncated)
        gsp_digest__loss(digest, "file", gsp_sv_of("its end is missing"), 1);
}

static void add_profile_facts(struct gsp_digest *digest, const struct gsp_profile *profile)
{
    gsp_auto_buf text = {0};
    const struct gsp_process *process = gsp_profile_process_at(profile, 0);
    gsp_words_extent(profile, &text);
    gsp_digest__fact(digest, "Recorded", gsp_digest__keep_buf(digest, &text));
    if (process && process->version != GSP_NONE)
        gsp_digest__fact(digest, "Python", gsp_profile_string_at(profile, process->version));
    gsp_buf_printf(&text, "%zu in %zu processes", gsp_profile_thread_count(profile),
                   gsp_profile_process_count(profile));
    gsp_digest__fact(digest, "Threads", gsp_digest__keep_buf(digest, &text));
}

/* Takes the profile in, as the stacks of the digest. */
static int take_profile(struct gsp_digest *digest, struct gsp_profile *profile,
                        const struct gsp_digest_opts *opts, struct gsp_err *err)
{
    const struct gsp_profile_meta *meta = gsp_profile_meta_get(profile);
    gsp_auto_buf text = {0};
    digest->profile = profile;
    if (digest->start_ns == 0 || (meta->start_ns > 0 && meta->start_ns < digest->start_ns))
        digest->start_ns = meta->start_ns;
    if (meta->period_ns > 0)
        digest->period_s = (double)meta->period_ns / (double)GSP_NS_PER_S;
    if (digest->command.len == 0 && gsp_profile_process_count(profile) > 0) {
        gsp_words_command(profile, &text);
        digest->command = gsp_digest__keep_buf(digest, &text);
    }
    int rc = gsp_digest__stacks(digest, opts, err);
    if (rc < 0)
        return rc;
    add_losses(digest, meta);
    const size_t count = digest->stacks.has_times ? digest->stacks.sample_count : 0;
    const double last_s = count ? digest->stacks.samples[count - 1].t : (double)NAN;
    if (isnan(digest->duration_s))
        digest->duration_s =
            meta->duration_ns > 0 ? (double)meta->duration_ns / (double)GSP_NS_PER_S : last_s;
    return GSP_OK;
}

/* When it was, and on what. */
static void add_facts(struct gsp_digest *digest)
{
    char when[64];
    struct tm parts;
    const time_t seconds = (time_t)(digest->start_ns / GSP_NS_PER_S);
    if (digest->command.len)
        gsp_digest__fact(digest, "Command", digest->command);
    if (digest->host.len)
        gsp_digest__fact(digest, "Machine", digest->host);
    if (digest->start_ns > 0 && localtime_r(&seconds, &parts) &&
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S %z", &parts) > 0)
        gsp_digest__fact(digest, "Started", gsp_digest__keep(digest, gsp_sv_of(when)));
    if (digest->profile)
        add_profile_facts(digest, digest->profile);
}

int gsp_digest_open_profile(struct gsp_profile *profile, const char *name,
                            const struct gsp_digest_opts *opts, struct gsp_digest **out,
                            struct gsp_err *err)
{
    struct gsp_digest *digest = NULL;
    *out = NULL;
    int rc = new_digest(GSP_DIGEST_PROFILE, name, &digest, err);
    if (rc < 0) {
        gsp_profile_free(profile);
        return rc;
    }
    rc = take_profile(digest, profile, opts, err);
    if (rc == GSP_OK)
        add_facts(digest);
    return finish(digest, rc, out, err);
}

int gsp_digest_open_path(const char *path, const struct gsp_digest_opts *opts,
                         struct gsp_digest **out, struct gsp_err *err)
{
    struct gsp_profile *profile = NULL;
    const struct gsp_format *format = opts && opts->from ? gsp_format_find(opts->from) : NULL;
    const char *real = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
    *out = NULL;
    int rc = gsp_format_load(real, format, true, &profile, err);
    return rc == GSP_OK ? gsp_digest_open_profile(profile, path, opts, out, err) : rc;
}
