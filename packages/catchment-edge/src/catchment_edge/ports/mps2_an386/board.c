/* ARM's MPS2 board with image AN386: the device's two lines, and its only task.
 *
 * UART0 is the link to the gateway. UART1 is the sensor, which no gateway sees. With
 * SENSOR_MEMORY the sensor's bytes lie in the board's external memory instead, after their number
 * in four bytes, as those of a data logger would. With COUNT_TICKS every answer is followed by a
 * line on UART2: ticks of the board's clock of 25 MHz that it took, less the time spent waiting for
 * the gateway. */
#include <stdint.h>

#include "port.h"

#define JOINED(a, b) a##b
#define OF_MODEL(model, name) JOINED(model, name)

void OF_MODEL(MODEL, _serve)(void);
int main(void);
void board_fault(void);

struct uart {
    volatile uint32_t data, state, control, interrupt, divisor;
};

#define LINK ((struct uart *)0x40004000u)
#define SENSOR ((struct uart *)0x40005000u)
#define COUNTS ((struct uart *)0x40006000u)

enum { SEND_FULL = 1, RECEIVED = 2 }; /* of a UART's state */
enum { SENDS = 1, RECEIVES = 2, INTERRUPTS = 8, DIVISOR = 217 }; /* 25 MHz / 217: 115 200 baud */
enum { LOOKS = 1000 }; /* for a byte that may follow at once, before the processor sleeps */

#define INTERRUPTS_ON (*(volatile uint32_t *)0xe000e100u)
#define INTERRUPTS_SEEN (*(volatile uint32_t *)0xe000e280u)
#define LINK_RECEIVED 1u /* interrupts by their number: 0 of UART0, 2 of UART1 */
#define SENSOR_RECEIVED 4u

static void uart_on(struct uart *uart)
{
    uart->divisor = DIVISOR;
    uart->control = SENDS | RECEIVES | INTERRUPTS;
}

/* Interrupts wake the processor and are never taken. One that came before a look at the state is
 * forgotten before that look, one that comes after it ends the sleep at once. */
static uint8_t uart_read(struct uart *uart, uint32_t interrupt)
{
    uint32_t look;
    for (;;) {
        uart->interrupt = RECEIVED;
        INTERRUPTS_SEEN = interrupt;
        for (look = 0; look < LOOKS; look++)
            if (uart->state & RECEIVED)
                return (uint8_t)uart->data;
        __asm__ volatile("wfi");
    }
}

static void uart_write(struct uart *uart, const uint8_t *bytes, uint32_t count)
{
    while (count--) {
        while (uart->state & SEND_FULL)
            ;
        uart->data = *bytes++;
    }
}

#ifdef COUNT_TICKS
struct timer {
    volatile uint32_t control, value, reload, interrupt;
};

#define TIMER ((struct timer *)0x40000000u)

static uint32_t waited; /* since the last line */
static int answered;

static uint32_t ticks_now(void)
{
    return 0 - TIMER->value; /* it counts down */
}

static void ticks_on(void)
{
    uart_on(COUNTS);
    TIMER->reload = 0xffffffffu;
    TIMER->value = 0xffffffffu;
    TIMER->control = 1;
}

/* Eight hexadecimal digits and the end of a line; the time it takes is not counted. */
static void ticks_written(void)
{
    static uint32_t before;
    uint32_t passed = ticks_now() - before - waited, i;
    uint8_t line[9];
    for (i = 0; i < 8; i++, passed <<= 4)
        line[i] = (uint8_t)"0123456789abcdef"[passed >> 28];
    line[8] = '\n';
    uart_write(COUNTS, line, 9);
    answered = 0;
    waited = 0;
    before = ticks_now();
}

int port_read(uint8_t *one)
{
    uint32_t begin;
    if (answered)
        ticks_written();
    begin = ticks_now();
    *one = uart_read(LINK, LINK_RECEIVED);
    waited += ticks_now() - begin;
    return 1;
}

void port_write(const uint8_t *bytes, uint32_t count)
{
    answered = 1; /* when the gateway is listened to again, the answer was complete */
    uart_write(LINK, bytes, count);
}
#else
static void ticks_on(void)
{
}

int port_read(uint8_t *one)
{
    *one = uart_read(LINK, LINK_RECEIVED);
    return 1; /* a wire is never closed */
}

void port_write(const uint8_t *bytes, uint32_t count)
{
    uart_write(LINK, bytes, count);
}
#endif

#ifdef SENSOR_MEMORY
#define MEMORY ((const uint8_t *)0x21000000u)

int sensor_read(uint8_t *one)
{
    static uint32_t taken;
    if (taken >= *(const uint32_t *)MEMORY)
        return 0;
    *one = MEMORY[4 + taken++];
    return 1;
}
#else
int sensor_read(uint8_t *one)
{
    *one = uart_read(SENSOR, SENSOR_RECEIVED);
    return 1;
}
#endif

struct clock {
    volatile uint32_t control, reload, value;
};

#define CLOCK ((struct clock *)0xe000e010u)

/* Ten times a second, without an interrupt. The emulator looks at its lines when something happens
 * on the board; without a clock that runs, bytes that came before a line was on would wait for
 * ever. */
static void clock_on(void)
{
    CLOCK->reload = 2499999;
    CLOCK->value = 0;
    CLOCK->control = 5;
}

/* A frame 'n' that says so, once: whoever waits for an answer need not wait longer. */
void board_fault(void)
{
    static const uint8_t frame[] = {
        0xca, 0x7c, 'n', 25, 0, 0, 0, 't', 'h', 'e', ' ', 'p', 'r', 'o', 'c', 'e',
        's', 's', 'o', 'r', ' ', 'm', 'e', 't', ' ', 'a', ' ', 'f', 'a', 'u', 'l',
        't', 0x1f, 0xdd, 0xa8, 0x48,
    };
    uart_write(LINK, frame, sizeof frame);
    for (;;)
        ;
}

int main(void)
{
    __asm__ volatile("cpsid i");
    INTERRUPTS_ON = LINK_RECEIVED | SENSOR_RECEIVED;
    clock_on();
    uart_on(LINK);
    uart_on(SENSOR);
    ticks_on();
    for (;;)
        OF_MODEL(MODEL, _serve)();
}
