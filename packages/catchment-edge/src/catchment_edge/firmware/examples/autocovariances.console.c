/* One value per line on the console; `send` prints every lag's sum and pairs, and begins anew. A line
 * that is no number is a gap. MEAN and SCALE are those of the federation's scaling round. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

@INCLUDES@#include "@NAME@.h"

static const double MEAN = 0.0, SCALE = 1.0;
static struct lags sums;

static void take(const char *line)
{
    char *end;
    const double value = strtod(line, &end);
    uint16_t k;
    if (strncmp(line, "send", 4) == 0) {
        for (k = 0; k < LAGS; k++)
            printf("%" PRId64 " %" PRIu32 "\n", lags_product(&sums, k), lags_pairs(&sums, k));
        lags_sent(&sums);
    } else if (end == line || value != value) {
        lags_gap(&sums);
    } else if (lags_feed(&sums, lags_fixed(value, MEAN, SCALE)) == LAGS_FULL) {
        puts("full: send first, then this value again");
    }
}

@MAIN@
