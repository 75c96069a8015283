/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "cli/help.h"
#include "cli/schema_page.h"
#include "tap.h"

#define DOCS GSP_TEST_DATA "/../../../docs/cli"

static const struct gsp_term PLAIN = {.fd = -1, .width = 80};

/* No line of text is wider than width. */
static void check_width(const char *text, size_t width)
{
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        if (!tap_check(len <= width))
            printf("#   %.*s\n", (int)len, line);
        line += len + (line[len] == '\n');
    }
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

TAP_TEST(help_fits)
{
    for (size_t i = 0; i < gsp_command_count; i++) {
        gsp_auto_buf text = {0};
        gsp_cli__help_command(gsp_commands[i], false, &PLAIN, &text);
        check_width(gsp_buf_cstr(&text), 80);
        tap_check(count_lines(gsp_buf_cstr(&text)) <= 40);
        gsp_buf_clear(&text);
        gsp_cli__help_command(gsp_commands[i], true, &PLAIN, &text);
        check_width(gsp_buf_cstr(&text), 80);
        for (size_t k = 0; k < gsp_commands[i]->opt_count; k++)
            tap_check(strstr(gsp_buf_cstr(&text), gsp_commands[i]->opts[k].name) != NULL);
    }
}

TAP_TEST(overview_fits)
{
    gsp_auto_buf text = {0};
    gsp_cli__help_overview(&PLAIN, &text);
    check_width(gsp_buf_cstr(&text), 80);
    tap_check(count_lines(gsp_buf_cstr(&text)) <= 24);
    tap_check(strstr(gsp_buf_cstr(&text), "docs") == NULL);
}

TAP_TEST(topics_fit)
{
    for (size_t i = 0; gsp_cli__help_topic_at(i); i++) {
        gsp_auto_buf text = {0};
        tap_check(gsp_cli__help_topic(gsp_cli__help_topic_at(i), &text));
        check_width(gsp_buf_cstr(&text), 100);
    }
    gsp_auto_buf none = {0};
    tap_check(!gsp_cli__help_topic("nothing", &none));
}

TAP_TEST(completions_are_complete)
{
    for (size_t s = 0; gsp_cli__complete_shell_at(s); s++) {
        gsp_auto_buf text = {0};
        tap_check(gsp_cli__complete_script(gsp_cli__complete_shell_at(s), &text));
        for (size_t i = 0; i < gsp_command_count; i++) {
            if (gsp_commands[i]->hidden)
                continue;
            tap_check(strstr(gsp_buf_cstr(&text), gsp_commands[i]->name) != NULL);
            for (size_t k = 0; k < gsp_commands[i]->opt_count; k++)
                tap_check(strstr(gsp_buf_cstr(&text), gsp_commands[i]->opts[k].name) != NULL);
        }
    }
    gsp_auto_buf none = {0};
    tap_check(!gsp_cli__complete_script("tcsh", &none));
}

static void check_page(const char *name, struct gsp_buf *page)
{
    char path[1024];
    gsp_auto_buf stored = {0};
    struct gsp_err err = {0};
    snprintf(path, sizeof(path), "%s/%s.md", DOCS, name);
    if (!tap_eq_int(gsp_file_read(path, 1U << 20, &stored, &err), GSP_OK))
        return;
    if (!tap_check(gsp_sv_eq(gsp_buf_sv(&stored), gsp_buf_sv(page))))
        printf("#   %s is out of date: gsprof docs docs/cli\n", path);
}

TAP_TEST(pages_are_up_to_date)
{
    gsp_auto_buf page = {0};
    gsp_cli__help_markdown_index(&page);
    check_page("gsprof", &page);
    for (size_t i = 0; i < gsp_command_count; i++) {
        if (gsp_commands[i]->hidden)
            continue;
        char name[64];
        snprintf(name, sizeof(name), "gsprof-%s", gsp_commands[i]->name);
        gsp_buf_clear(&page);
        gsp_cli__help_markdown(gsp_commands[i], &page);
        check_page(name, &page);
    }
    gsp_buf_clear(&page);
    gsp_cli__schema_markdown(&page);
    check_page("../sql-schema", &page);
    gsp_buf_clear(&page);
    gsp_cli__settings_markdown(&page);
    check_page("../settings", &page);
}

TAP_TEST(wrapping)
{
    gsp_auto_buf text = {0};
    gsp_cli__term_wrap(&text, "one two three", 4, 12);
    tap_eq_str(gsp_buf_cstr(&text), "one two\n    three");
    gsp_buf_clear(&text);
    gsp_cli__term_wrap(&text, "averyverylongword x", 2, 8);
    tap_eq_str(gsp_buf_cstr(&text), "averyverylongword\n  x");
    gsp_buf_clear(&text);
    gsp_cli__term_wrap(&text, "a\nb", 0, 8);
    tap_eq_str(gsp_buf_cstr(&text), "a\nb");
    gsp_buf_clear(&text);
    gsp_cli__term_wrap(&text, "", 0, 8);
    tap_eq_str(gsp_buf_cstr(&text), "");
}

static bool colored(const char *when)
{
    struct gsp_term term;
    gsp_cli__term_init(&term, STDERR_FILENO, when);
    return term.color;
}

TAP_TEST(color_variables)
{
    tap_require(freopen("/dev/null", "w", stderr) != NULL);
    unsetenv("NO_COLOR");
    unsetenv("CLICOLOR_FORCE");
    tap_check(!colored("auto"));
    tap_check(colored("always"));
    setenv("CLICOLOR_FORCE", "0", 1);
    tap_check(!colored("auto"));
    setenv("CLICOLOR_FORCE", "1", 1);
    tap_check(colored("auto"));
    tap_check(!colored("never"));
    setenv("NO_COLOR", "1", 1);
    tap_check(!colored("auto"));
    tap_check(colored("always"));
}

TAP_MAIN()
