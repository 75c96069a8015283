/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sample/select.h"
#include "tap.h"

static struct gsp_profile *profile;
static struct gsp_select *selector;

static void begin(struct gsp_select_opts opts)
{
    tap_eq_int(gsp_model_profile_new(false, &profile, NULL), GSP_OK);
    tap_eq_int(gsp_sample__select_new(&opts, profile, &selector, NULL), GSP_OK);
}

static void end(void)
{
    gsp_sample__select_free(selector);
    gsp_model_profile_free(profile);
}

static uint32_t call(uint32_t caller, const char *name, const char *file)
{
    struct gsp_frame frame = {.line = 1, .kind = GSP_FRAME_PYTHON};
    uint32_t id;
    uint32_t stack;
    tap_eq_int(gsp_model_profile_string(profile, gsp_sv_of(name), &frame.name, NULL), GSP_OK);
    tap_eq_int(gsp_model_profile_string(profile, gsp_sv_of(file), &frame.file, NULL), GSP_OK);
    tap_eq_int(gsp_model_profile_frame(profile, &frame, &id, NULL), GSP_OK);
    tap_eq_int(gsp_model_profile_stack(profile, caller, id, &stack, NULL), GSP_OK);
    return stack;
}

/* "main;load", root first. */
static const char *shown(uint32_t stack)
{
    static char text[256];
    uint32_t frames[16];
    size_t n = gsp_model_profile_stack_frames(profile, stack, frames, 16);
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        struct gsp_sv name = gsp_model_profile_string_at(
            profile, gsp_model_profile_frame_at(profile, frames[i])->name);
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.*s", i ? ";" : "",
                                (int)name.len, name.p);
    }
    return text;
}

static const char *selected(uint32_t stack, bool in_gc)
{
    uint32_t out;
    tap_eq_int(gsp_sample__select_stack(selector, stack, in_gc, &out, NULL), GSP_OK);
    return shown(out);
}

TAP_TEST(without_options_nothing_changes)
{
    begin((struct gsp_select_opts){0});
    uint32_t a = call(GSP_NONE, "main", "a.py");
    uint32_t b = call(a, "load", "b.py");
    uint32_t out;
    tap_eq_int(gsp_sample__select_stack(selector, b, false, &out, NULL), GSP_OK);
    tap_eq_int(out, b);
    tap_eq_int(gsp_sample__select_stack(selector, GSP_NONE, true, &out, NULL), GSP_OK);
    tap_eq_int(out, GSP_NONE);
    tap_check(gsp_sample__select_thread(selector, gsp_sv_of("any")));
    end();
}

TAP_TEST(include_by_function_or_file)
{
    begin((struct gsp_select_opts){.include = "^load$|lib.torch"});
    uint32_t a = call(GSP_NONE, "main", "a.py");
    uint32_t b = call(a, "load", "b.py");
    uint32_t c = call(b, "forward", "/x/lib/torch/nn.py");
    uint32_t d = call(c, "loader", "c.py");
    tap_eq_str(selected(d, false), "load;forward");
    tap_eq_str(selected(a, false), "");
    /* A mark alone is not recorded. */
    tap_eq_str(selected(a, true), "");
    end();
}

TAP_TEST(exclude_overrides_include)
{
    begin((struct gsp_select_opts){.include = "py$", .exclude = "^load$"});
    uint32_t a = call(GSP_NONE, "main", "a.py");
    uint32_t b = call(a, "load", "b.py");
    uint32_t c = call(b, "read", "b.py");
    tap_eq_str(selected(c, false), "main;read");
    end();
}

TAP_TEST(imports_become_one_mark)
{
    begin((struct gsp_select_opts){0});
    uint32_t s = call(GSP_NONE, "<module>", "a.py");
    s = call(s, "_find_and_load", "<frozen importlib._bootstrap>");
    s = call(s, "exec_module", "<frozen importlib._bootstrap_external>");
    uint32_t inner = call(s, "<module>", "b.py");
    uint32_t again = call(inner, "_find_and_load", "<frozen importlib._bootstrap>");
    tap_eq_str(selected(inner, false), "<module>;(import);<module>");
    tap_eq_str(selected(again, false), "<module>;(import);<module>;(import)");
    tap_eq_str(selected(s, false), "<module>;(import)");
    end();
    begin((struct gsp_select_opts){.import_frames = true});
    s = call(GSP_NONE, "<module>", "a.py");
    s = call(s, "_find_and_load", "<frozen importlib._bootstrap>");
    tap_eq_str(selected(s, false), "<module>;_find_and_load");
    end();
}

TAP_TEST(own_frames_are_omitted)
{
    begin((struct gsp_select_opts){0});
    uint32_t s = call(GSP_NONE, "<module>", "/srv/gsprof/train.py");
    s = call(s, "_find_and_load", "<frozen importlib._bootstrap>");
    s = call(s, "_Then.exec_module", "/opt/lib/gsprof/_imports.py");
    s = call(s, "exec_module", "<frozen importlib._bootstrap_external>");
    s = call(s, "<module>", "/srv/gsprof/model.py");
    uint32_t hooked = call(s, "_wrap.<locals>.init", "<gsprof, not importlib._bootstrap>");
    uint32_t inner = call(hooked, "Adam.__init__", "torch/optim/adam.py");
    tap_eq_str(selected(inner, false), "<module>;(import);<module>;Adam.__init__");
    tap_eq_str(selected(hooked, false), "<module>;(import);<module>");
    uint32_t alone = call(GSP_NONE, "wait", "/opt/lib/gsprof/_imports.py");
    tap_eq_str(selected(alone, false), "");
    s = call(GSP_NONE, "execsitecustomize", "<frozen site>");
    s = call(s, "<module>", "/usr/lib/gsprof/python/start/sitecustomize.py");
    s = call(s, "<module>", "/etc/python3.11/sitecustomize.py");
    tap_eq_str(selected(s, false), "execsitecustomize;<module>");
    /* A program may be in a folder of that name. */
    s = call(GSP_NONE, "<module>", "/srv/gsprof/measure/data/_load.py");
    s = call(s, "f", "/srv/my_gsprof/_x.py");
    s = call(s, "g", "/srv/gsprof/profiler/_timer.py");
    s = call(s, "h", "/srv/gsprof/torch/_hooks.py");
    tap_eq_str(selected(s, false), "<module>;f");
    end();
}

TAP_TEST(garbage_collections_are_marked)
{
    begin((struct gsp_select_opts){0});
    uint32_t a = call(GSP_NONE, "main", "a.py");
    tap_eq_str(selected(a, true), "main;(garbage collection)");
    tap_eq_str(selected(a, false), "main");
    end();
}

TAP_TEST(the_deepest_stack_has_no_room_for_a_mark)
{
    begin((struct gsp_select_opts){0});
    uint32_t s = GSP_NONE;
    for (uint32_t i = 0; i < GSP_STACK_DEPTH_MAX; i++)
        s = call(s, "f", "a.py");
    uint32_t out;
    tap_eq_int(gsp_sample__select_stack(selector, s, true, &out, NULL), GSP_OK);
    tap_eq_int(out, s);
    end();
}

TAP_TEST(only_callees_of_a_function)
{
    begin((struct gsp_select_opts){.below = "^run_cell$"});
    uint32_t a = call(GSP_NONE, "main", "kernel.py");
    uint32_t b = call(a, "run_cell", "kernel.py");
    uint32_t c = call(b, "<module>", "cell.py");
    uint32_t d = call(c, "burn", "cell.py");
    uint32_t other = call(a, "select", "kernel.py");
    tap_eq_str(selected(d, false), "<module>;burn");
    tap_eq_str(selected(other, false), "");
    tap_eq_str(selected(b, true), "");
    /* The innermost match counts. */
    uint32_t again = call(call(d, "run_cell", "kernel.py"), "<module>", "inner.py");
    tap_eq_str(selected(again, false), "<module>");
    tap_eq_str(selected(call(c, "load", "cell.py"), false), "<module>;load");
    end();
}

static const char *file_of(uint32_t stack)
{
    static char text[64];
    const uint32_t frame = gsp_model_profile_stack_frame(profile, stack);
    const struct gsp_sv file =
        gsp_model_profile_string_at(profile, gsp_model_profile_frame_at(profile, frame)->file);
    snprintf(text, sizeof(text), "%.*s", (int)file.len, file.p);
    return text;
}

TAP_TEST(files_are_renamed)
{
    char path[] = "/tmp/gsp-names-XXXXXX";
    const char text[] = "/tmp/k/1.py\tIn[1]\n/tmp/k/2.py\tIn[2]\n";
    int fd = mkstemp(path);
    tap_check(fd >= 0 && write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1);
    close(fd);
    begin((struct gsp_select_opts){.names = path});
    unlink(path);
    uint32_t stack = call(call(GSP_NONE, "main", "/tmp/k/2.py"), "burn", "/tmp/k/3.py");
    uint32_t out;
    tap_eq_int(gsp_sample__select_stack(selector, stack, false, &out, NULL), GSP_OK);
    tap_eq_str(file_of(out), "/tmp/k/3.py");
    tap_eq_str(file_of(gsp_model_profile_stack_caller(profile, out)), "In[2]");
    end();
    struct gsp_err err = {0};
    struct gsp_profile *empty;
    struct gsp_select *none;
    tap_eq_int(gsp_model_profile_new(false, &empty, NULL), GSP_OK);
    tap_eq_int(gsp_sample__select_new(&(struct gsp_select_opts){.names = path}, empty, &none, &err),
               GSP_E_NOFILE);
    gsp_model_profile_free(empty);
}

TAP_TEST(threads_by_name)
{
    begin((struct gsp_select_opts){.thread = "^worker-[0-9]+$"});
    tap_check(gsp_sample__select_thread(selector, gsp_sv_of("worker-12")));
    tap_check(!gsp_sample__select_thread(selector, gsp_sv_of("MainThread")));
    tap_check(!gsp_sample__select_thread(selector, (struct gsp_sv){"", 0}));
    end();
}

TAP_TEST(invalid_expressions_are_rejected)
{
    struct gsp_err err = {0};
    tap_eq_int(gsp_sample_select_check("[", &err), GSP_E_USAGE);
    tap_check(strstr(err.msg, "[ is not a regular expression") != NULL);
    tap_eq_int(gsp_sample_select_check("a|b", NULL), GSP_OK);
    tap_eq_int(gsp_sample_select_check(NULL, NULL), GSP_OK);
    tap_eq_int(gsp_model_profile_new(false, &profile, NULL), GSP_OK);
    tap_eq_int(
        gsp_sample__select_new(&(struct gsp_select_opts){.thread = "("}, profile, &selector, NULL),
        GSP_E_USAGE);
    gsp_model_profile_free(profile);
}

TAP_MAIN()
