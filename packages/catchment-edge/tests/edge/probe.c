/* Stands in for a model where only the port is tested: each byte on the link is a request.
 *
 *     0 .. 99   so many bytes of the sensor go back on the link, or '!' when there are no more
 *     200       the processor does what it cannot: a fault
 *     201       the stack grows without end
 *     203       the stack takes a kilobyte, and then as 202
 *     202       four bytes come back that start-up must have set
 */
#include "probe.h"
#include "port.h"

static uint8_t zero[2], set[2] = {7, 9};

static volatile uint32_t never;

static uint32_t deep(uint32_t n)
{
    volatile uint32_t room[64];
    room[n & 63] = n;
    return never ? n : deep(n + 1) + room[(n + 1) & 63];
}

static void kilobyte(void)
{
    volatile uint8_t room[1024];
    uint32_t i;
    for (i = 0; i < sizeof room; i++)
        room[i] = (uint8_t)i;
}

static int sensor_back(uint8_t count)
{
    uint8_t byte;
    while (count--) {
        if (!sensor_read(&byte))
            byte = '!';
        port_write(&byte, 1);
    }
    return 1;
}

static int answer(void)
{
    uint8_t request;
    if (!port_read(&request))
        return 0;
    if (request < 100)
        return sensor_back(request);
#ifdef __arm__
    if (request == 200)
        __asm__ volatile("udf #0");
#endif
    if (request == 201)
        return (int)deep(0);
    if (request == 203)
        kilobyte();
    port_write(zero, 2);
    port_write(set, 2);
    return 1;
}

void probe_serve(void)
{
    while (answer())
        ;
}
