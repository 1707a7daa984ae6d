/* From power-on to main: a Cortex-M4F, or an M0+ whose code the same board runs.
 *
 * The stack lies at the low end of RAM, so that one that grows too far leaves the memory there is
 * and faults; it cannot write over the model's state. */
#include <stddef.h>
#include <stdint.h>

extern uint32_t stack_bottom[], stack_top[];
extern uint32_t data_begin[], data_end[], data_kept[], bss_begin[], bss_end[];

int main(void);
void board_fault(void);
void reset(void);

/* Compilers call these even where there is no library. */
void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int value, size_t n);
int memcmp(const void *a, const void *b, size_t n);
int *__errno(void);

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    uint8_t *target = to;
    const uint8_t *source = from;
    while (n--)
        *target++ = *source++;
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    uint8_t *target = to;
    const uint8_t *source = from;
    if ((uintptr_t)to < (uintptr_t)from)
        return memcpy(to, from, n);
    while (n--)
        target[n] = source[n];
    return to;
}

void *memset(void *to, int value, size_t n)
{
    uint8_t *target = to;
    while (n--)
        *target++ = (uint8_t)value;
    return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
    const uint8_t *left = a, *right = b;
    for (; n--; left++, right++)
        if (*left != *right)
            return *left < *right ? -1 : 1;
    return 0;
}

/* Some functions of libm set it; nothing here reads it. */
int *__errno(void)
{
    static int number;
    return &number;
}

#ifdef __ARM_FP
#define ACCESS_TO_COPROCESSORS (*(volatile uint32_t *)0xe000ed88u)

static void floating_point_on(void)
{
    ACCESS_TO_COPROCESSORS |= 15u << 20;
    __asm__ volatile("dsb\n\tisb");
}
#else
static void floating_point_on(void)
{
}
#endif

/* What the stack never reaches keeps this mark, so that a debugger can tell how deep it went. */
static void stack_marked(void)
{
    volatile uint32_t *word = stack_bottom, *here;
    __asm__ volatile("mov %0, sp" : "=r"(here));
    while (word < here)
        *word++ = 0x5a5a5a5au;
}

void reset(void)
{
    stack_marked();
    memcpy(data_begin, data_kept, (size_t)((uint8_t *)data_end - (uint8_t *)data_begin));
    memset(bss_begin, 0, (size_t)((uint8_t *)bss_end - (uint8_t *)bss_begin));
    floating_point_on();
    main();
    board_fault(); /* main never returns */
}

struct vectors {
    uint32_t *stack;
    void (*handler[15])(void);
};

/* No interrupt is ever let in. */
__attribute__((section(".vectors"), used)) static const struct vectors vectors = {
    stack_top,
    {reset, board_fault, board_fault, board_fault, board_fault, board_fault, 0, 0, 0, 0,
     board_fault, board_fault, 0, board_fault, board_fault},
};
