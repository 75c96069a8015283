/* SPDX-License-Identifier: Apache-2.0 */
#include "export/function_names.h"

#include <stdlib.h>

#include "base/buf.h"

static struct gsp_sv cut(struct gsp_sv text, size_t front, size_t back)
{
    return (struct gsp_sv){text.p + front, text.len - front - back};
}

struct gsp_sv gsp_export__module_of(struct gsp_sv path)
{
    static const struct gsp_sv none = {"", 0};
    static const char frozen[] = "<frozen ";
    if (gsp_sv_starts(path, frozen) && gsp_sv_ends(path, ">"))
        return cut(path, sizeof(frozen) - 1, 1);
    struct gsp_sv base = gsp_sv_basename(path);
    if (!gsp_sv_ends(base, ".py"))
        return none;
    struct gsp_sv stem = cut(base, 0, 3);
    if (!gsp_sv_eq(stem, gsp_sv_of("__init__")) && !gsp_sv_eq(stem, gsp_sv_of("__main__")))
        return stem;
    if (path.len == base.len)
        return none;
    return gsp_sv_basename(cut(path, 0, base.len + 1));
}

/* Whether the frame is of runpy ("python -m"), which calls the main script. */
static bool is_runpy(const struct gsp_profile *profile, const struct gsp_frame *frame)
{
    struct gsp_sv module = gsp_export__module_of(gsp_model_profile_string_at(profile, frame->file));
    return gsp_sv_eq(module, gsp_sv_of("runpy"));
}

/* Marks main scripts: files whose "<module>" was not imported. */
static void mark_main_files(const struct gsp_profile *profile, bool *is_main_file)
{
    size_t count = gsp_model_profile_stack_count(profile);
    for (uint32_t id = 1; id <= count; id++) {
        const struct gsp_frame *frame =
            gsp_model_profile_frame_at(profile, gsp_model_profile_stack_frame(profile, id));
        const struct gsp_frame *caller = gsp_model_profile_frame_at(
            profile,
            gsp_model_profile_stack_frame(profile, gsp_model_profile_stack_caller(profile, id)));
        if (frame && (!caller || is_runpy(profile, caller)) &&
            gsp_sv_eq(gsp_model_profile_string_at(profile, frame->name), gsp_sv_of("<module>")))
            is_main_file[frame->file] = true;
    }
}

static int fill(const struct gsp_profile *profile, const bool *is_main_file,
                struct gsp_function_names *names, struct gsp_err *err)
{
    size_t count = gsp_model_profile_frame_count(profile);
    gsp_auto_buf buf = {0};
    for (uint32_t id = 1; id <= count; id++) {
        const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, id);
        struct gsp_sv name = gsp_model_profile_string_at(profile, frame->name);
        struct gsp_sv module = {"", 0};
        if (frame->kind == GSP_FRAME_PYTHON && !is_main_file[frame->file])
            module = gsp_export__module_of(gsp_model_profile_string_at(profile, frame->file));
        gsp_buf_clear(&buf);
        gsp_buf_putsv(&buf, module);
        if (module.len)
            gsp_buf_putc(&buf, '.');
        gsp_buf_putsv(&buf, name);
        if (buf.failed)
            return gsp_err_nomem(err);
        int rc = gsp_model_profile_string(names->pool, gsp_buf_sv(&buf), &names->of_frame[id], err);
        if (rc)
            return rc;
    }
    return GSP_OK;
}

int gsp_export__function_names_fill(const struct gsp_profile *profile,
                                    struct gsp_function_names *names, struct gsp_err *err)
{
    *names = (struct gsp_function_names){0};
    int rc = gsp_model_profile_new(false, &names->pool, err);
    if (rc)
        return rc;
    names->of_frame = calloc(gsp_model_profile_frame_count(profile) + 1, sizeof(*names->of_frame));
    bool *is_main_file = calloc(gsp_model_profile_string_count(profile) + 1, sizeof(*is_main_file));
    if (names->of_frame && is_main_file) {
        mark_main_files(profile, is_main_file);
        is_main_file[GSP_NONE] = true; /* no file, no module */
        rc = fill(profile, is_main_file, names, err);
    } else {
        rc = gsp_err_nomem(err);
    }
    free(is_main_file);
    if (rc)
        gsp_export__function_names_free(names);
    return rc;
}

void gsp_export__function_names_free(struct gsp_function_names *names)
{
    gsp_model_profile_free(names->pool);
    free(names->of_frame);
    *names = (struct gsp_function_names){0};
}
