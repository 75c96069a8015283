/* SPDX-License-Identifier: Apache-2.0 */
#include "export/plot.h"

#include <string.h>

#include "export/plot_scene.h"

int gsp_export_plot_format(const char *path, enum gsp_export_plot_format *out, struct gsp_err *err)
{
    static const struct {
        const char *end;
        enum gsp_export_plot_format format;
    } FORMATS[] = {{".svg", GSP_PLOT_SVG}, {".png", GSP_PLOT_PNG}, {".html", GSP_PLOT_HTML}};
    for (size_t i = 0; i < GSP_COUNT(FORMATS); i++) {
        if (gsp_sv_ends(gsp_sv_of(path), FORMATS[i].end)) {
            *out = FORMATS[i].format;
            return GSP_OK;
        }
    }
    return gsp_err_set(err, GSP_E_USAGE, 0,
                       "--plot: the extension of '%.120s' is not .svg, .png or .html", path);
}

bool gsp_export_plot_matches(const char *words, const char *metric)
{
    struct gsp_sv rest = gsp_sv_of(words);
    struct gsp_sv word = {0};
    if (!words)
        return true;
    while (gsp_sv_split(&rest, ',', &word))
        if (word.len && memmem(metric, strlen(metric), word.p, word.len))
            return true;
    return false;
}

int gsp_export_plot_draw(const struct gsp_plot *plot, const struct gsp_session_data *data,
                         struct gsp_buf *out, struct gsp_err *err)
{
    struct plot_scene scene = {0};
    int rc = gsp_export__plot_layout(plot, data, &scene, err);
    if (rc == GSP_OK && plot->format == GSP_PLOT_PNG)
        rc = gsp_export__plot_png_write(&scene, out, err);
    else if (rc == GSP_OK && plot->format == GSP_PLOT_HTML)
        gsp_export__plot_html_write(&scene, data->name[0] ? data->name : "session", out);
    else if (rc == GSP_OK)
        gsp_export__plot_svg_write(&scene, out);
    gsp_export__plot_scene_free(&scene);
    if (rc == GSP_OK && out->failed)
        rc = gsp_err_nomem(err);
    return rc;
}
