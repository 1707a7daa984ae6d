/* One line per sample on the console, channels separated by spaces; prints what the model says. */
#include <stdio.h>
#include <stdlib.h>

#include "@NAME@.h"

static struct @NAME@_state state;

void app_main(void)
{
    static char line[512];
    static float scores[@UPPER@_OUTPUTS];
    @NAME@_reset(&state);
    for (;;) {
        @NAME@_value sample[@UPPER@_CHANNELS];
        char *at = line;
        int i;
        if (fgets(line, sizeof line, stdin) == NULL) {
            clearerr(stdin);
            continue;
        }
        for (i = 0; i < @UPPER@_CHANNELS; i++)
            sample[i] = strtod(at, &at);
        if (@NAME@_step(&state, sample, scores) == 1)
            @SAY_PRINTF@
    }
}
