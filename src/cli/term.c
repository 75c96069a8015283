/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/term.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/file.h"

#define WIDTH_DEFAULT 80U
#define WIDTH_MIN     40U
#define LINE_MAX_     1024U

static bool env_set(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] != '\0';
}

static bool use_color(bool is_tty, const char *when)
{
    if (strcmp(when, "always") == 0)
        return true;
    if (strcmp(when, "never") == 0 || env_set("NO_COLOR"))
        return false;
    const char *force = getenv("CLICOLOR_FORCE");
    if (force && force[0] != '\0' && strcmp(force, "0") != 0)
        return true;
    const char *name = getenv("TERM");
    return is_tty && !(name && strcmp(name, "dumb") == 0);
}

void gsp_cli__term_init(struct gsp_term *term, int fd, const char *when)
{
    *term = (struct gsp_term){.fd = fd, .width = WIDTH_DEFAULT};
    term->is_tty = isatty(fd) == 1;
    term->color = use_color(term->is_tty, when ? when : "auto");
    struct winsize size;
    if (term->is_tty && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= WIDTH_MIN)
        term->width = size.ws_col;
}

const char *gsp_cli__term_bold(const struct gsp_term *term)
{
    return term->color ? "\033[1m" : "";
}

const char *gsp_cli__term_dim(const struct gsp_term *term)
{
    return term->color ? "\033[2m" : "";
}

const char *gsp_cli__term_red(const struct gsp_term *term)
{
    return term->color ? "\033[31m" : "";
}

const char *gsp_cli__term_green(const struct gsp_term *term)
{
    return term->color ? "\033[32m" : "";
}

const char *gsp_cli__term_yellow(const struct gsp_term *term)
{
    return term->color ? "\033[33m" : "";
}

const char *gsp_cli__term_off(const struct gsp_term *term)
{
    return term->color ? "\033[0m" : "";
}

/* Ignores write errors: the terminal may be gone. */
static void put(const struct gsp_term *term, const char *text, size_t len)
{
    int rc = gsp_fd_write_all(term->fd, text, len, NULL);
    (void)rc;
}

/* Names in the text cannot harm the terminal. */
static void put_lines(const struct gsp_term *term, struct gsp_sv text, bool colors)
{
    gsp_ignore(gsp_fd_write_text(term->fd, text, colors, NULL));
}

void gsp_cli__term_write(struct gsp_term *term, struct gsp_buf *text)
{
    gsp_cli__term_clear_status(term);
    put_lines(term, gsp_buf_sv(text), true);
    gsp_buf_clear(text);
}

void gsp_cli__term_line(struct gsp_term *term, const char *fmt, ...)
{
    char line[LINE_MAX_];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof(line) - 1, fmt, args);
    va_end(args);
    if (n < 0)
        return;
    size_t len = (size_t)n < sizeof(line) - 2 ? (size_t)n : sizeof(line) - 2;
    line[len] = '\n';
    gsp_cli__term_clear_status(term);
    put_lines(term, (struct gsp_sv){line, len + 1}, false);
}

void gsp_cli__term_status(struct gsp_term *term, const char *fmt, ...)
{
    if (!term->is_tty)
        return;
    char text[LINE_MAX_];
    gsp_auto_buf line = {0};
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (n < 0)
        return;
    /* Truncate: the next call can clear only one line. */
    if ((size_t)n >= sizeof(text))
        n = sizeof(text) - 1;
    gsp_buf_term(&line, (struct gsp_sv){text, (size_t)n});
    if (line.len > term->width - 1)
        line.len = term->width - 1;
    put(term, "\r\033[K", 4);
    put(term, line.p, line.len);
    term->has_status = true;
}

void gsp_cli__term_clear_status(struct gsp_term *term)
{
    if (term->has_status)
        put(term, "\r\033[K", 4);
    term->has_status = false;
}

void gsp_cli__term_wrap(struct gsp_buf *out, const char *text, size_t indent, size_t width)
{
    size_t column = indent;
    bool first = true;
    while (*text) {
        size_t len = strcspn(text, " \n");
        if (!first && column + 1 + len > width) {
            gsp_buf_printf(out, "\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        if (!first && len) {
            gsp_buf_putc(out, ' ');
            column++;
        }
        gsp_buf_put(out, text, len);
        column += len;
        first = first && len == 0;
        text += len;
        if (*text == '\n') {
            gsp_buf_putc(out, '\n');
            if (text[1] != '\n' && text[1] != '\0')
                gsp_buf_printf(out, "%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        text += *text != '\0';
    }
}
