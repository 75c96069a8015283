/* SPDX-License-Identifier: Apache-2.0 */
#include "export/format.h"
#include "profile_fixture.h"

static const char *name_of_path(const char *path)
{
    const struct gsp_format *format = gsp_export_format_of_path(path);
    return format ? format->name : NULL;
}

static const char *name_of(const char *name)
{
    const struct gsp_format *format = gsp_export_format_find(name);
    return format ? format->name : NULL;
}

TAP_TEST(formats_by_extension)
{
    tap_eq_str(name_of_path("a/b.gsp"), "gsp");
    tap_eq_str(name_of_path("profile.json"), "json");
    tap_eq_str(name_of_path("x.speedscope.json"), "speedscope");
    tap_eq_str(name_of_path("x.trace.json"), "chrome");
    tap_eq_str(name_of_path("x.folded"), "folded");
    tap_eq_str(name_of_path("x.txt"), "folded");
    tap_eq_str(name_of_path("x.collapsed"), "folded");
    tap_eq_str(name_of_path("x.svg"), "svg");
    tap_eq_str(name_of_path("x.prof"), "pstats");
    tap_eq_str(name_of_path("x.pb.gz"), "pprof");
    tap_check(name_of_path("x.doc") == NULL);
    tap_check(name_of_path("folder.json/x") == NULL);
    tap_check(name_of_path("") == NULL);
}

TAP_TEST(formats_by_name)
{
    tap_eq_str(name_of("raw"), "folded");
    tap_eq_str(name_of("flamegraph"), "svg");
    tap_eq_str(name_of("chrometrace"), "chrome");
    tap_check(name_of("nonsense") == NULL);
    for (size_t i = 0; i < gsp_export_format_count(); i++) {
        const struct gsp_format *format = gsp_export_format_at(i);
        tap_check(gsp_export_format_find(format->name) == format);
        tap_check(format->write || format->read);
        tap_check(format->summary && format->extensions[0]);
    }
    tap_check(gsp_export_format_at(gsp_export_format_count()) == NULL);
}

static void save_as(const struct gsp_profile *p, const char *format, const char *path)
{
    struct gsp_err err = {0};
    int rc = gsp_export_format_save(path, gsp_export_format_find(format), p, NULL, false, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
}

TAP_TEST(content_overrules_the_extension)
{
    char folder[] = "/tmp/gsp-format-XXXXXX";
    tap_require(mkdtemp(folder) != NULL);
    tap_require(chdir(folder) == 0);
    struct gsp_profile *p = fix_small();
    struct gsp_profile *q = NULL;
    struct gsp_err err = {0};
    static const char *const readable[] = {"gsp", "json", "speedscope"};
    for (size_t i = 0; i < GSP_COUNT(readable); i++) {
        save_as(p, readable[i], "wrong.json");
        tap_eq_int(gsp_export_format_load("wrong.json", NULL, true, &q, &err), GSP_OK);
        tap_eq_str(err.msg, "");
        tap_eq_int(gsp_model_profile_sample_count(q), i == 2 ? 9 : 10);
        gsp_model_profile_free(q);
        unlink("wrong.json");
    }
    save_as(p, "chrome", "wrong.json");
    tap_eq_int(gsp_export_format_load("wrong.json", NULL, true, &q, &err), GSP_E_NOTSUP);
    tap_check(q == NULL);
    tap_eq_str(err.msg, "wrong.json: the chrome format can be written but not read");
    tap_eq_int(gsp_export_format_load("wrong.json", gsp_export_format_find("gsp"), true, &q, &err),
               GSP_E_FORMAT);
    tap_eq_str(err.msg, "wrong.json (read as gsp): not a .gsp file");
    tap_eq_int(gsp_export_format_load("missing.json", NULL, true, &q, &err), GSP_E_NOFILE);
    unlink("wrong.json");
    gsp_model_profile_free(p);
    rmdir(folder);
}

TAP_TEST(an_existing_file_is_replaced_only_on_request)
{
    char folder[] = "/tmp/gsp-format-XXXXXX";
    tap_require(mkdtemp(folder) != NULL);
    tap_require(chdir(folder) == 0);
    struct gsp_profile *p = fix_small();
    const struct gsp_format *folded = gsp_export_format_find("folded");
    save_as(p, "folded", "a.folded");
    tap_eq_int(gsp_export_format_save("a.folded", folded, p, NULL, false, NULL), GSP_E_EXISTS);
    tap_eq_int(gsp_export_format_save("a.folded", folded, p, NULL, true, NULL), GSP_OK);
    /* A writer that fails does not change the file. */
    struct gsp_profile *counts = NULL;
    tap_require(fix_read(gsp_sv_of("a 1\n"), "folded", &counts, NULL) == GSP_OK);
    tap_eq_int(gsp_export_format_save("a.folded", gsp_export_format_find("chrome"), counts, NULL,
                                      true, NULL),
               GSP_E_NOTSUP);
    struct gsp_profile *q = NULL;
    tap_eq_int(gsp_export_format_load("a.folded", NULL, true, &q, NULL), GSP_OK);
    tap_eq_int(gsp_model_profile_sample_count(q), 10);
    unlink("a.folded");
    tap_eq_int(rmdir(folder), 0); /* no temporary file remains */
    gsp_model_profile_free(p);
    gsp_model_profile_free(q);
    gsp_model_profile_free(counts);
}

TAP_MAIN()
