/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "export/plot_colors.h"
#include "export/plot_scene.h"

#define SCALE       2.0F /* pixels per unit, for high-resolution screens */
#define LINE_HALF   0.8F
#define STROKE_HALF 0.55F
#define BAND_SHARE  0.2F
#define HEIGHT_MAX  20000.0F

/* The picture, and the share of each pixel that the current shape covers. */
struct canvas {
    size_t width;
    size_t height;
    uint8_t *rgb;
    uint8_t *cover;
    /* The part of cover that is not 0. */
    size_t left, top, right, bottom;
};

struct box {
    float left, top, right, bottom;
};

uint32_t gsp_export__plot_rgb(size_t color)
{
    static const uint32_t LIGHT[] = {0xffffff, 0xf6f7f9, 0xdfe3e8, 0x1b2430, 0x5c6878};
    /* Distinguishable with colour blindness, on light and dark backgrounds. */
    static const uint32_t LINES[PLOT_COLORS] = {0x2f7ed8, 0xe8710a, 0x2ca25f, 0xd6336c, 0x8a63d2,
                                                0x0fa3b1, 0xb8860b, 0x7a8b99, 0xc0392b, 0x5c9e31};
    static const uint32_t HEATS[] = {0x1f2a5c, 0x2a5fa5, 0x2fa3a0, 0x9bcf4a, 0xf9e04b};
    if (color < PLOT_LINE)
        return LIGHT[color];
    if (color < PLOT_HEAT)
        return LINES[color - PLOT_LINE];
    /* Interpolate between the two nearest colours. */
    const size_t last = GSP_COUNT(HEATS) - 1;
    float at = (float)(color - PLOT_HEAT) / (float)(PLOT_HEATS - 1) * (float)last;
    size_t i = (size_t)at;
    i = i < last ? i : last - 1;
    uint32_t rgb = 0;
    for (unsigned shift = 0; shift < 24; shift += 8) {
        float a = (float)((HEATS[i] >> shift) & 0xffU);
        float b = (float)((HEATS[i + 1] >> shift) & 0xffU);
        rgb |= (uint32_t)(a + (b - a) * (at - (float)i) + 0.5F) << shift;
    }
    return rgb;
}

static size_t clamp(float v, size_t most)
{
    if (!(v > 0))
        return 0;
    return v < (float)most ? (size_t)v : most;
}

static void cover_pixel(struct canvas *canvas, size_t x, size_t y, float share)
{
    uint8_t v = (uint8_t)(fminf(fmaxf(share, 0), 1) * 255.0F + 0.5F);
    uint8_t *at = &canvas->cover[y * canvas->width + x];
    if (v <= *at)
        return;
    *at = v;
    canvas->left = x < canvas->left ? x : canvas->left;
    canvas->right = x + 1 > canvas->right ? x + 1 : canvas->right;
    canvas->top = y < canvas->top ? y : canvas->top;
    canvas->bottom = y + 1 > canvas->bottom ? y + 1 : canvas->bottom;
}

/* Paints the covered pixels and clears the cover. */
static void paint(struct canvas *canvas, size_t color, float share)
{
    uint32_t rgb = gsp_export__plot_rgb(color);
    for (size_t y = canvas->top; y < canvas->bottom; y++) {
        uint8_t *cover = canvas->cover + y * canvas->width;
        for (size_t x = canvas->left; x < canvas->right; x++) {
            if (!cover[x])
                continue;
            float a = (float)cover[x] / 255.0F * share;
            uint8_t *at = canvas->rgb + (y * canvas->width + x) * 3;
            for (unsigned c = 0; c < 3; c++) {
                float to = (float)((rgb >> (16 - 8 * c)) & 0xffU);
                at[c] = (uint8_t)((float)at[c] + (to - (float)at[c]) * a + 0.5F);
            }
            cover[x] = 0;
        }
    }
    canvas->left = canvas->width;
    canvas->top = canvas->height;
    canvas->right = 0;
    canvas->bottom = 0;
}

/* Covers a straight stroke with round ends, in pixels. */
static void cover_stroke(struct canvas *canvas, struct plot_point a, struct plot_point b,
                         float half)
{
    float dx = b.x - a.x;
    float dy = b.y - a.y;
    float length = dx * dx + dy * dy;
    struct box box = {fminf(a.x, b.x) - half - 1, fminf(a.y, b.y) - half - 1,
                      fmaxf(a.x, b.x) + half + 2, fmaxf(a.y, b.y) + half + 2};
    size_t right = clamp(box.right, canvas->width);
    size_t bottom = clamp(box.bottom, canvas->height);
    for (size_t y = clamp(box.top, canvas->height); y < bottom; y++) {
        for (size_t x = clamp(box.left, canvas->width); x < right; x++) {
            float px = (float)x + 0.5F - a.x;
            float py = (float)y + 0.5F - a.y;
            float t = length > 0 ? fminf(fmaxf((px * dx + py * dy) / length, 0), 1) : 0;
            float away = hypotf(px - t * dx, py - t * dy);
            if (away < half + 0.5F)
                cover_pixel(canvas, x, y, half + 0.5F - away);
        }
    }
}

static void draw_rect(struct canvas *canvas, const struct plot_item *item)
{
    struct box box = {item->x * SCALE, item->y * SCALE, (item->x + item->w) * SCALE,
                      (item->y + item->h) * SCALE};
    size_t right = clamp(ceilf(box.right), canvas->width);
    size_t bottom = clamp(ceilf(box.bottom), canvas->height);
    for (size_t y = clamp(box.top, canvas->height); y < bottom; y++) {
        float rows = fminf(box.bottom, (float)y + 1) - fmaxf(box.top, (float)y);
        for (size_t x = clamp(box.left, canvas->width); x < right; x++) {
            float columns = fminf(box.right, (float)x + 1) - fmaxf(box.left, (float)x);
            cover_pixel(canvas, x, y, rows * columns);
        }
    }
    paint(canvas, item->color, 1);
}

static struct plot_point pixel_at(const struct plot_scene *scene, size_t i)
{
    const struct plot_point *p = PLOT_AT(scene->points, struct plot_point, i);
    return (struct plot_point){p->x * SCALE, p->y * SCALE};
}

static void draw_path(struct canvas *canvas, const struct plot_scene *scene,
                      const struct plot_item *item)
{
    for (size_t i = 1; i < item->count; i++)
        cover_stroke(canvas, pixel_at(scene, item->first + i - 1), pixel_at(scene, item->first + i),
                     LINE_HALF * SCALE);
    paint(canvas, item->color, 1);
}

/* Covers the area between two edges, one column of pixels at a time. */
static void cover_band(struct canvas *canvas, const struct plot_point upper[2],
                       const struct plot_point lower[2])
{
    float width = upper[1].x - upper[0].x;
    size_t right = clamp(ceilf(upper[1].x), canvas->width);
    for (size_t x = clamp(upper[0].x, canvas->width); x < right; x++) {
        float t = width > 0 ? fminf(fmaxf(((float)x + 0.5F - upper[0].x) / width, 0), 1) : 0;
        float top = upper[0].y + (upper[1].y - upper[0].y) * t;
        float bottom = lower[0].y + (lower[1].y - lower[0].y) * t;
        size_t end = clamp(ceilf(bottom), canvas->height);
        for (size_t y = clamp(top, canvas->height); y < end; y++)
            cover_pixel(canvas, x, y, fminf(bottom, (float)y + 1) - fmaxf(top, (float)y));
    }
}

static void draw_band(struct canvas *canvas, const struct plot_scene *scene,
                      const struct plot_item *item)
{
    for (size_t i = 1; i < item->count; i++) {
        size_t at = item->first + i;
        const struct plot_point upper[2] = {pixel_at(scene, at - 1), pixel_at(scene, at)};
        const struct plot_point lower[2] = {pixel_at(scene, at + item->count - 1),
                                            pixel_at(scene, at + item->count)};
        cover_band(canvas, upper, lower);
    }
    paint(canvas, item->color, BAND_SHARE);
}

/* A digit of a glyph: 0 to 9, a to f. */
static float digit(char c)
{
    return (float)(c >= 'a' ? c - 'a' + 10 : c - '0');
}

static void cover_glyph(struct canvas *canvas, const char *glyph, struct plot_point at, float unit)
{
    struct plot_point last = {0};
    bool begun = false;
    for (const char *p = glyph; *p;) {
        if (*p == ' ') {
            begun = false;
            p++;
            continue;
        }
        struct plot_point to = {at.x + digit(p[0]) * unit, at.y + (digit(p[1]) - 9) * unit};
        if (begun)
            cover_stroke(canvas, last, to, STROKE_HALF * SCALE * unit / (SCALE * 0.92F));
        last = to;
        begun = true;
        p += 2;
    }
}

static void draw_words(struct canvas *canvas, const struct plot_scene *scene,
                       const struct plot_item *item)
{
    const char *text = gsp_export__plot_text_at(scene, item->text);
    float unit = item->h * SCALE / PLOT_GLYPH_UNITS;
    float width = gsp_export__plot_text_width(text, item->h) * SCALE;
    struct plot_point at = {item->x * SCALE - width * (float)(item->anchor + 1) / 2,
                            item->y * SCALE};
    for (const char *p = text; *p; p++) {
        float advance = 0;
        if (((unsigned char)*p & 0xc0U) == 0x80U)
            continue;
        const char *glyph = gsp_export__plot_glyph(*p, &advance);
        cover_glyph(canvas, glyph, at, unit);
        at.x += advance * unit;
    }
    paint(canvas, item->color, 1);
}

static void draw_all(struct canvas *canvas, const struct plot_scene *scene)
{
    for (size_t i = 0; i < PLOT_COUNT(scene->items, struct plot_item); i++) {
        const struct plot_item *item = PLOT_AT(scene->items, struct plot_item, i);
        switch (item->kind) {
        case PLOT_RECT:
            draw_rect(canvas, item);
            break;
        case PLOT_PATH:
            draw_path(canvas, scene, item);
            break;
        case PLOT_BAND:
            draw_band(canvas, scene, item);
            break;
        case PLOT_LABEL:
            draw_words(canvas, scene, item);
            break;
        }
    }
}

static void put_u32(struct gsp_buf *out, uint32_t v)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        gsp_buf_putc(out, (char)(v >> shift));
}

static void put_chunk(struct gsp_buf *out, const char *type, const void *bytes, size_t len)
{
    put_u32(out, (uint32_t)len);
    size_t at = out->len;
    gsp_buf_put(out, type, 4);
    gsp_buf_put(out, bytes, len);
    if (!out->failed)
        put_u32(out,
                (uint32_t)crc32(0, (const Bytef *)(const void *)(out->p + at), (uInt)(len + 4)));
}

/* Encodes each row as its difference from the row above, which compresses well. */
static uint8_t *filter_rows(const struct canvas *canvas, size_t *len)
{
    size_t row = canvas->width * 3;
    *len = (row + 1) * canvas->height;
    uint8_t *out = malloc(*len);
    for (size_t y = 0; out && y < canvas->height; y++) {
        const uint8_t *from = canvas->rgb + y * row;
        const uint8_t *above = y ? from - row : NULL;
        uint8_t *to = out + y * (row + 1);
        *to++ = 2; /* "up" */
        for (size_t i = 0; i < row; i++)
            to[i] = (uint8_t)(from[i] - (above ? above[i] : 0));
    }
    return out;
}

static int put_png(const struct canvas *canvas, struct gsp_buf *out, struct gsp_err *err)
{
    size_t len = 0;
    uint8_t *rows = filter_rows(canvas, &len);
    uLongf packed_len = compressBound((uLong)len);
    uint8_t *packed = rows ? malloc(packed_len) : NULL;
    int rc = packed && compress2(packed, &packed_len, rows, (uLong)len, 6) == Z_OK
                 ? GSP_OK
                 : gsp_err_nomem(err);
    if (rc == GSP_OK) {
        gsp_auto_buf head = {0};
        put_u32(&head, (uint32_t)canvas->width);
        put_u32(&head, (uint32_t)canvas->height);
        gsp_buf_put(&head, "\x08\x02\0\0\0", 5); /* 8 bits each of red, green and blue */
        gsp_buf_put(out, "\x89PNG\r\n\x1a\n", 8);
        put_chunk(out, "IHDR", head.p, head.len);
        put_chunk(out, "IDAT", packed, packed_len);
        put_chunk(out, "IEND", "", 0);
    }
    free(rows);
    free(packed);
    return rc;
}

int gsp_export__plot_png_write(const struct plot_scene *scene, struct gsp_buf *out,
                               struct gsp_err *err)
{
    float height = fminf(scene->height, HEIGHT_MAX);
    struct canvas canvas = {.width = (size_t)(PLOT_WIDTH * SCALE),
                            .height = (size_t)ceilf(height * SCALE)};
    size_t pixels = canvas.width * canvas.height;
    canvas.rgb = malloc(pixels * 3);
    canvas.cover = calloc(pixels, 1);
    canvas.left = canvas.width;
    canvas.top = canvas.height;
    int rc = GSP_OK;
    if (canvas.rgb && canvas.cover) {
        memset(canvas.rgb, 0xff, pixels * 3);
        draw_all(&canvas, scene);
        rc = put_png(&canvas, out, err);
    } else {
        rc = gsp_err_nomem(err);
    }
    free(canvas.rgb);
    free(canvas.cover);
    return rc;
}
