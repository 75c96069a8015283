/* SPDX-License-Identifier: Apache-2.0 */
#include "export/plot_scene.h"

#include <string.h>

void gsp_export__plot_scene_free(struct plot_scene *scene)
{
    gsp_buf_free(&scene->items);
    gsp_buf_free(&scene->points);
    gsp_buf_free(&scene->columns);
    gsp_buf_free(&scene->lines);
    gsp_buf_free(&scene->panels);
    gsp_buf_free(&scene->texts);
}

bool gsp_export__plot_scene_failed(const struct plot_scene *scene)
{
    return scene->items.failed || scene->points.failed || scene->columns.failed ||
           scene->lines.failed || scene->panels.failed || scene->texts.failed;
}

size_t gsp_export__plot_text_add(struct plot_scene *scene, const char *text)
{
    if (scene->texts.len == 0)
        gsp_buf_putc(&scene->texts, '\0');
    if (text[0] == '\0')
        return 0;
    size_t at = scene->texts.len;
    gsp_buf_put(&scene->texts, text, strlen(text) + 1);
    return at;
}

const char *gsp_export__plot_text_at(const struct plot_scene *scene, size_t at)
{
    return at < scene->texts.len ? scene->texts.p + at : "";
}

void gsp_export__plot_rect_draw(struct plot_scene *scene, size_t color, float x, float y, float w,
                                float h)
{
    struct plot_item item = {.kind = PLOT_RECT, .color = color, .x = x, .y = y, .w = w, .h = h};
    gsp_buf_put(&scene->items, &item, sizeof(item));
}

void gsp_export__plot_text_draw(struct plot_scene *scene, size_t color, struct plot_point at,
                                int anchor, float size, const char *text)
{
    struct plot_item item = {.kind = PLOT_LABEL,
                             .color = color,
                             .x = at.x,
                             .y = at.y,
                             .anchor = anchor,
                             .h = size,
                             .text = gsp_export__plot_text_add(scene, text)};
    gsp_buf_put(&scene->items, &item, sizeof(item));
}
