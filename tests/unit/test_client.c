/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "client/client.h"
#include "tap.h"

static void check_endpoint(const char *word, const char *expected)
{
    gsp_auto_buf out = {0};
    tap_eq_int(gsp_client_endpoint(word, &out, NULL), GSP_OK);
    tap_eq_str(gsp_buf_cstr(&out), expected);
}

TAP_TEST(addresses_from_words)
{
    check_endpoint(NULL, "localhost:8091");
    check_endpoint("", "localhost:8091");
    check_endpoint("gpu7", "gpu7:8091");
    check_endpoint("gpu7:9000", "gpu7:9000");
    check_endpoint("9000", "localhost:9000");
    check_endpoint(":9000", "localhost:9000");
    check_endpoint("[::1]", "[::1]:8091");
    check_endpoint("[::1]:9000", "[::1]:9000");
    check_endpoint("http://gpu7:1/", "http://gpu7:1/");
    check_endpoint("unix:/run/x", "unix:/run/x");
}

TAP_TEST(rejects_malformed_addresses)
{
    gsp_auto_buf out = {0};
    struct gsp_err err = {0};
    tap_eq_int(gsp_client_endpoint("70000", &out, &err), GSP_E_USAGE);
    tap_eq_int(gsp_client_endpoint("https://gpu7", &out, &err), GSP_E_USAGE);
    tap_check(err.msg[0] != '\0');
}

static const char *token(const struct gsp_client_tokens *tokens, const char *endpoint,
                         struct gsp_buf *out)
{
    gsp_buf_clear(out);
    tap_eq_int(gsp_client_token(tokens, endpoint, out, NULL), GSP_OK);
    return gsp_buf_cstr(out);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    tap_check(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

TAP_TEST(token_priority_and_scope)
{
    char folder[] = "/tmp/gsp_client_XXXXXX";
    char path[64];
    gsp_auto_buf out = {0};
    tap_check(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/gsprof", folder);
    tap_eq_int(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/gsprof/token", folder);
    struct gsp_client_tokens tokens = {.config = path};
    tap_eq_str(token(&tokens, "localhost:8091", &out), "");
    write_file(path, "  secret\n");
    tap_eq_str(token(&tokens, "localhost:8091", &out), "secret");
    tap_eq_str(token(&tokens, "http://127.0.0.1:8091", &out), "secret");
    tap_eq_str(token(&tokens, "unix:/run/x", &out), "secret");
    tap_eq_str(token(&tokens, "gpu7:8091", &out), "");
    tap_eq_str(token(&tokens, "localhost.evil.example:8091", &out), "");
    tap_eq_str(token(&tokens, "127.0.0.1.evil.example:8091", &out), "");
    tokens.environment = "fromenv";
    tap_eq_str(token(&tokens, "gpu7:8091", &out), "fromenv");
    tokens.file = path;
    tap_eq_str(token(&tokens, "gpu7:8091", &out), "secret");
    tokens.given = "typed";
    tap_eq_str(token(&tokens, "gpu7:8091", &out), "typed");
    unlink(path);
    snprintf(path, sizeof(path), "%s/gsprof", folder);
    rmdir(path);
    rmdir(folder);
}

TAP_TEST(token_cannot_break_a_header)
{
    gsp_auto_buf out = {0};
    struct gsp_err err = {0};
    struct gsp_client_tokens tokens = {.given = "a\r\nX-Evil: 1"};
    tap_eq_int(gsp_client_token(&tokens, "localhost:8091", &out, &err), GSP_E_USAGE);
    tokens.given = "two words";
    tap_eq_int(gsp_client_token(&tokens, "localhost:8091", &out, &err), GSP_E_USAGE);
    tokens.given = "";
    tap_eq_int(gsp_client_token(&tokens, "localhost:8091", &out, &err), GSP_E_USAGE);
    tokens.given = NULL;
    tokens.file = "/nonexistent/token";
    tap_eq_int(gsp_client_token(&tokens, "localhost:8091", &out, &err), GSP_E_NOFILE);
    tap_eq_int((int)out.len, 0);
}

TAP_MAIN()
