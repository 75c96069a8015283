/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bare_http.c -- a minimal server on libmicrohttpd: every request gets the same bytes.
 *
 *     bare_http BYTES        prints its port, serves until stdin ends
 */
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *text;
static size_t text_len;

/* NOLINTNEXTLINE(readability-function-size): the library defines the signature */
static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *data_len, void **state)
{
    static int seen;
    (void)cls, (void)url, (void)method, (void)version, (void)data, (void)data_len;
    /* Answering in the first call would close the connection. */
    if (!*state) {
        *state = &seen;
        return MHD_YES;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(text_len, text, MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result queued = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    char byte;
    text_len = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    text = malloc(text_len + 1);
    if (!text)
        return 70;
    memset(text, ' ', text_len);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer, NULL,
                         MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        daemon ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!info)
        return 69;
    printf("%u\n", (unsigned)info->port);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    MHD_stop_daemon(daemon);
    free(text);
    return 0;
}
