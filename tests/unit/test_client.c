/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "client/client.h"
#include "client/listener.h"
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

/* Listens on a free port of the loopback interface. */
static uint16_t listen_here(int *fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tap_check(bind(*fd, (const struct sockaddr *)&address, len) == 0 && listen(*fd, 1) == 0 &&
              getsockname(*fd, (struct sockaddr *)&address, &len) == 0);
    return ntohs(address.sin_port);
}

#define LINE(local, state, uid)                                                                    \
    "   0: " local " 00000000:0000 " state " 00000000:00000000 00:00000000 00000000 " uid          \
    "        0 77 1 0000 100 0 0 10 0\n"

TAP_TEST(who_listens)
{
    static const struct {
        const char *text;
        enum gsp_listener expected;
    } CASES[] = {
        {"", GSP_LISTENER_NONE},
        {"  sl  local_address rem_address   st tx_queue\n" LINE("0100007F:1F9B", "0A", "0"),
         GSP_LISTENER_OURS},
        {LINE("0100007F:1F9B", "0A", "123456"), GSP_LISTENER_OTHER},
        {LINE("0100007F:1F9B", "0A", "0") LINE("00000000:1F9B", "0A", "123456"),
         GSP_LISTENER_OTHER},
        {LINE("0100007F:1F9B", "0A", "123456") LINE("0100007F:1F9B", "0A", "0"),
         GSP_LISTENER_OTHER},
        {LINE("00000000000000000000000001000000:1F9B", "0A", "123456"), GSP_LISTENER_OTHER},
        {LINE("00000000000000000000000000000000:1F9B", "0A", "123456"), GSP_LISTENER_OTHER},
        {LINE("0000000000000000FFFF00000100007F:1F9B", "0A", "123456"), GSP_LISTENER_OTHER},
        {LINE("0000000000000000FFFF00000200007F:1F9B", "0A", "123456"), GSP_LISTENER_NONE},
        {LINE("0100007F:1F9B", "01", "123456"), GSP_LISTENER_NONE},
        {LINE("0100007F:1F9C", "0A", "123456"), GSP_LISTENER_NONE},
        {LINE("0200007F:1F9B", "0A", "123456"), GSP_LISTENER_NONE},
        {LINE("0100007F", "0A", "123456"), GSP_LISTENER_NONE},
        {"0: 0100007F:1F9B x 0A", GSP_LISTENER_NONE},
    };
    for (size_t i = 0; i < GSP_COUNT(CASES); i++) {
        enum gsp_listener found = GSP_LISTENER_NONE;
        uid_t uid = 0;
        gsp_client__listener_parse(gsp_sv_of(CASES[i].text), 8091, AF_UNSPEC, &found, &uid);
        tap_eq_int(found, CASES[i].expected);
        tap_eq_int(uid, found == GSP_LISTENER_OTHER ? 123456 : 0);
    }
    tap_eq_int(gsp_client__local_port("localhost", NULL), 80);
    tap_eq_int(gsp_client__local_port("http://[::1]:1/", NULL), 1);
    tap_eq_int(gsp_client__local_port("localhost:1x", NULL), -1);
    tap_eq_int(gsp_client__local_port("localhost:", NULL), -1);
    tap_eq_int(gsp_client__local_port("localhost.example:1", NULL), -1);
}

/* Another user on the other loopback address does not matter. */
TAP_TEST(who_listens_at_an_address)
{
    static const struct {
        const char *local;
        enum gsp_listener four;
        enum gsp_listener six;
    } CASES[] = {
        {LINE("0100007F:1F9B", "0A", "123456"), GSP_LISTENER_OTHER, GSP_LISTENER_NONE},
        {LINE("00000000:1F9B", "0A", "123456"), GSP_LISTENER_OTHER, GSP_LISTENER_NONE},
        {LINE("0000000000000000FFFF00000100007F:1F9B", "0A", "123456"), GSP_LISTENER_OTHER,
         GSP_LISTENER_NONE},
        {LINE("00000000000000000000000001000000:1F9B", "0A", "123456"), GSP_LISTENER_NONE,
         GSP_LISTENER_OTHER},
        {LINE("00000000000000000000000000000000:1F9B", "0A", "123456"), GSP_LISTENER_OTHER,
         GSP_LISTENER_OTHER},
    };
    for (size_t i = 0; i < GSP_COUNT(CASES); i++) {
        enum gsp_listener four = GSP_LISTENER_NONE;
        enum gsp_listener six = GSP_LISTENER_NONE;
        uid_t uid = 0;
        gsp_client__listener_parse(gsp_sv_of(CASES[i].local), 8091, AF_INET, &four, &uid);
        gsp_client__listener_parse(gsp_sv_of(CASES[i].local), 8091, AF_INET6, &six, &uid);
        tap_eq_int(four, CASES[i].four);
        tap_eq_int(six, CASES[i].six);
    }
    int family = AF_UNSPEC;
    tap_eq_int(gsp_client__local_port("127.0.0.1:8091", &family), 8091);
    tap_eq_int(family, AF_INET);
    tap_eq_int(gsp_client__local_port("[::1]:8091", &family), 8091);
    tap_eq_int(family, AF_INET6);
    tap_eq_int(gsp_client__local_port("localhost:8091", &family), 8091);
    tap_eq_int(family, AF_UNSPEC);
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
    gsp_auto_fd fd = -1;
    const uint16_t port = listen_here(&fd);
    char at[64];
    snprintf(at, sizeof(at), "localhost:%u", port);
    tap_eq_str(token(&tokens, at, &out), "");
    write_file(path, "  secret\n");
    tap_eq_str(token(&tokens, at, &out), "secret");
    snprintf(at, sizeof(at), "http://127.0.0.1:%u/", port);
    tap_eq_str(token(&tokens, at, &out), "secret");
    gsp_fd_close(&fd);
    fd = -1;
    tap_eq_str(token(&tokens, at, &out), ""); /* no process listens */
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
