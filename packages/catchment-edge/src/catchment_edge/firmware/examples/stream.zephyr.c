/* One line per sample on the console, channels separated by spaces; prints what the model says. */
#include <stdio.h>
#include <stdlib.h>

#include <zephyr/console/console.h>
#include <zephyr/kernel.h>

#include "@NAME@.h"

static struct @NAME@_state state;

int main(void)
{
    static float scores[@UPPER@_OUTPUTS];
    console_getline_init();
    @NAME@_reset(&state);
    for (;;) {
        @NAME@_value sample[@UPPER@_CHANNELS];
        char *at = console_getline();
        int i;
        for (i = 0; i < @UPPER@_CHANNELS; i++)
            sample[i] = strtod(at, &at);
        if (@NAME@_step(&state, sample, scores) == 1)
            @SAY_PRINTF@
    }
}
