/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_profile.h -- reads bytes as a profile and writes the profile in a format that depends on
 * their number, because a hostile profile must not harm a writer either.
 */
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "export/format.h"

static inline void fuzz_write(const struct gsp_profile *profile, const char *format)
{
    gsp_auto_fd fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct gsp_err err = {0};
    struct gsp_out out;
    gsp_out_init(&out, fd);
    int rc = gsp_export_format_find(format)->write(profile, NULL, &out, &err);
    int finish_rc = gsp_out_finish(&out, NULL);
    /* A trace needs times; every other format must be written. */
    if ((rc && rc != GSP_E_NOTSUP) || finish_rc)
        abort();
}

static inline void fuzz_profile(const char *format, const uint8_t *data, size_t size)
{
    static const char *const written[] = {"gsp", "json", "speedscope", "folded", "chrome"};
    struct gsp_profile *profile = NULL;
    struct gsp_err err = {0};
    if (gsp_model_profile_new(true, &profile, &err))
        abort();
    struct gsp_sv bytes = {(const char *)data, size};
    const struct gsp_format *reader = gsp_export_format_find(format);
    if (reader->sniff)
        reader->sniff(bytes);
    int rc = reader->read(bytes, profile, &err);
    if (rc != GSP_OK && err.msg[0] == '\0')
        abort(); /* a failure without a message */
    if (rc == GSP_OK)
        fuzz_write(profile, written[size % GSP_COUNT(written)]);
    gsp_model_profile_free(profile);
}
