/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "source/profile_file.h"

struct convert_opts {
    const char *input;
    const char *from;
    const char *output;
    const char *format;
    bool force;
    struct gsp_view_options view;
};

static const struct gsp_opt OPTS[] = {
    GSP_OPT_INPUT(struct convert_opts),
    GSP_OPT_FROM(struct convert_opts),
    GSP_OPT_OUTPUT(struct convert_opts, "File to write; - is stdout and needs --format."),
    GSP_OPT_FORMAT(struct convert_opts),
    GSP_OPT_FORCE(struct convert_opts),
    GSP_OPT_THREADS(struct convert_opts),
    GSP_OPT_FUNCTION(struct convert_opts),
    GSP_OPT_NOLINENO(struct convert_opts),
    GSP_OPT_FULL_FILENAMES(struct convert_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof convert -i profile.json -o profile.prof", "For Python's pstats"},
    {"gsprof convert -i profile.gsp -o profile.speedscope.json", "For speedscope"},
    {"gsprof convert -i profile.gsp -o profile.pb.gz", "For go tool pprof"},
    {"gsprof convert -i profile.gsp -o - -f folded", "One line per stack, on stdout"},
    {"gsprof convert -i profile.gsp -o run1/", "A folder of Parquet files for SQL"},
};

static int run(const struct gsp_parsed *parsed)
{
    const struct convert_opts *opts = parsed->opts;
    if (!opts->input)
        return gsp_cli__misuse(parsed, "convert needs an input: --input FILE");
    if (!opts->output)
        return gsp_cli__misuse(parsed, "convert needs an output: --output FILE");
    struct gsp_err err = {0};
    const struct gsp_format *format = NULL;
    if (gsp_source_format_find(opts->format, opts->output, &format, &err) < 0)
        return gsp_cli__misuse(parsed, "%s", err.msg);

    struct gsp_profile *profile = NULL;
    const bool is_run = gsp_source_is_run(format);
    int rc = is_run ? GSP_OK : gsp_file_check_new(opts->output, opts->force, &err);
    if (rc == GSP_OK)
        rc =
            gsp_source_profile_load(opts->input, opts->from, format->needs_samples, &profile, &err);
    if (rc == GSP_OK && (opts->view.by_function || opts->view.no_lines))
        gsp_model_profile_merge_lines(profile, opts->view.by_function);
    if (rc == GSP_OK)
        rc = gsp_source_profile_save(opts->output, format, profile, &opts->view, opts->force, &err);
    gsp_model_profile_free(profile);
    if (rc < 0) {
        bool is_output = rc == GSP_E_EXISTS || rc == GSP_E_NOWRITE;
        return gsp_cli__fail(
            parsed, &(struct gsp_hint_context){.path = is_output ? opts->output : opts->input},
            &err);
    }
    if (!parsed->globals.quiet && strcmp(opts->output, "-") != 0) {
        struct gsp_term term;
        gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
        gsp_cli__term_line(&term, "Wrote %s (%s).", opts->output, format->name);
    }
    return 0;
}

const struct gsp_command gsp_cmd_convert = {
    .name = "convert",
    .summary = "Convert a profile to another format",
    .synopsis = "-i FILE -o FILE [-f FORMAT] [OPTIONS]",
    .about = "Detects the input format by its extension or first bytes. The extension of the "
             "output, or --format, selects the output format. `gsprof help formats` lists all "
             "formats.",
    GSP_COMMAND_OPTS(OPTS, struct convert_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .lesser = true,
    .run = run,
};
