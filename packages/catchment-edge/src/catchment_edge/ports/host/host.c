/* A device as a program of a POSIX machine: its link on a TCP port of the loopback, its sensor a
 * file, a pipe or a terminal's line.
 *
 *     MODEL PORT SENSOR
 *
 * One gateway at a time; when it goes the device keeps what it has and waits for the next. */
#define _POSIX_C_SOURCE 200809L

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port.h"

#define JOINED(a, b) a##b
#define OF_MODEL(model, name) JOINED(model, name)

void OF_MODEL(MODEL, _serve)(void);

static int gateway = -1;
static FILE *sensor;

static struct {
    uint8_t bytes[4096];
    ssize_t filled, taken;
} received;

int port_read(uint8_t *one)
{
    if (received.taken == received.filled) {
        received.taken = 0;
        received.filled = recv(gateway, received.bytes, sizeof received.bytes, 0);
        if (received.filled <= 0) {
            received.filled = 0;
            return 0;
        }
    }
    *one = received.bytes[received.taken++];
    return 1;
}

/* A gateway that went is noticed at the next read. */
void port_write(const uint8_t *bytes, uint32_t count)
{
    while (count) {
        ssize_t sent = send(gateway, bytes, count, 0);
        if (sent <= 0)
            return;
        bytes += sent;
        count -= (uint32_t)sent;
    }
}

int sensor_read(uint8_t *one)
{
    int found = getc(sensor);
    if (found == EOF) {
        clearerr(sensor); /* a file may grow, a pipe may get another writer */
        return 0;
    }
    *one = (uint8_t)found;
    return 1;
}

static int failed(const char *what)
{
    perror(what);
    return 1;
}

/* The socket that gateways connect to, or -1. */
static int listening(unsigned long port)
{
    struct sockaddr_in place;
    socklen_t length = sizeof place;
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    memset(&place, 0, sizeof place);
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    place.sin_port = htons((uint16_t)port);
    if (listener < 0)
        return -1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&place, sizeof place) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&place, &length))
        return -1;
    printf("%u\n", (unsigned)ntohs(place.sin_port));
    fflush(stdout);
    return listener;
}

static void serve(int listener)
{
    int yes = 1;
    gateway = accept(listener, 0, 0);
    if (gateway < 0)
        return;
    setsockopt(gateway, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    received.filled = received.taken = 0;
    OF_MODEL(MODEL, _serve)();
    close(gateway);
}

int main(int count, char **words)
{
    char *end = 0;
    unsigned long port = count == 3 ? strtoul(words[1], &end, 10) : 0;
    int listener;
    if (count != 3 || !*words[1] || *end || port > 65535) {
        fprintf(stderr, "usage: %s PORT SENSOR\n", words[0]);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    sensor = fopen(words[2], "rb");
    if (!sensor)
        return failed(words[2]);
    listener = listening(port);
    if (listener < 0)
        return failed(words[1]);
    for (;;)
        serve(listener);
}
