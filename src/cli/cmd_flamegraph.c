/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "source/profile_file.h"

struct flamegraph_opts {
    const char *input;
    const char *from;
    const char *output;
    bool force;
    struct gsp_view_options view;
};

static const struct gsp_opt OPTS[] = {
    GSP_OPT_INPUT(struct flamegraph_opts),
    GSP_OPT_FROM(struct flamegraph_opts),
    {.name = "output",
     .letter = 'o',
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct flamegraph_opts, output),
     .arg = "FILE",
     .default_text = "the input with the extension .svg",
     .help = "SVG file to write; - is stdout."},
    GSP_OPT_FORCE(struct flamegraph_opts),
    GSP_OPT_THREADS(struct flamegraph_opts),
    GSP_OPT_FUNCTION(struct flamegraph_opts),
    GSP_OPT_NOLINENO(struct flamegraph_opts),
    GSP_OPT_FULL_FILENAMES(struct flamegraph_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof flamegraph --input profile.gsp --output flame.svg",
     "Draw a flame graph of a recording"},
    {"gsprof flamegraph -i profile.json", "Write profile.svg"},
    {"gsprof flamegraph -i profile.folded -o - --threads",
     "Write to stdout, with separate threads"},
};

/* "dir/profile.speedscope.json" becomes "dir/profile.svg". */
static void default_output(const char *input, char *out, size_t cap)
{
    const struct gsp_format *format = gsp_export_format_of_path(input);
    size_t len = strlen(input);
    size_t cut = 0;
    for (size_t i = 0; format && i < GSP_COUNT(format->extensions); i++) {
        const char *extension = format->extensions[i];
        if (extension && gsp_sv_ends(gsp_sv_of(input), extension) && strlen(extension) > cut)
            cut = strlen(extension);
    }
    snprintf(out, cap, "%.*s.svg", (int)(len - cut), input);
}

static int make(const struct flamegraph_opts *opts, const char *input, const char *output,
                struct gsp_err *err)
{
    const struct gsp_format *svg = gsp_export_format_find("svg");
    if (!svg)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "this build cannot write SVG");
    struct gsp_profile *profile = NULL;
    int rc = gsp_file_check_new(output, opts->force, err);
    if (rc == GSP_OK)
        rc = gsp_source_profile_load(input, opts->from, svg->needs_samples, &profile, err);
    if (rc == GSP_OK)
        rc = gsp_export_format_save(output, svg, profile, &opts->view, opts->force, err);
    gsp_model_profile_free(profile);
    return rc;
}

static int run(const struct gsp_parsed *parsed)
{
    const struct flamegraph_opts *opts = parsed->opts;
    const char *input = opts->input ? opts->input : parsed->args[0];
    if (!input)
        return gsp_cli__misuse(parsed, "flamegraph needs a profile: --input FILE");
    char name[4096];
    default_output(strcmp(input, "-") == 0 ? "profile" : input, name, sizeof(name));
    const char *output = opts->output ? opts->output : name;
    struct gsp_err err = {0};
    int rc = make(opts, input, output, &err);
    if (rc < 0) {
        bool is_output = rc == GSP_E_EXISTS || rc == GSP_E_NOWRITE;
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = is_output ? output : input},
                             &err);
    }
    if (!parsed->globals.quiet && strcmp(output, "-") != 0) {
        struct gsp_term term;
        gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
        gsp_cli__term_line(&term, "Wrote %s. Open it in a browser:", output);
        gsp_cli__term_line(&term, "    xdg-open %s", output);
    }
    return 0;
}

const struct gsp_command gsp_cmd_flamegraph = {
    .name = "flamegraph",
    .summary = "Draw a profile as an interactive flame graph",
    .synopsis = "-i FILE [-o FILE.svg] [OPTIONS]",
    .about = "Reads a profile in any supported format and writes a self-contained SVG: click to "
             "zoom, press Ctrl-F to search by regular expression, Esc to go back.",
    GSP_COMMAND_OPTS(OPTS, struct flamegraph_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .args_max = 1,
    .lesser = true,
    .run = run,
};
