/* Reads a dump (dump.py writes it) from the standard input, and writes integers to the output.
 *
 * Both are little-endian whatever the processor is: 32-bit words in, 64-bit words out. A dump of a
 * map and sequences gives all states and feature rows of each sequence and then the sums of all
 * rows; a dump of arguments gives their activations.
 */
#include <stdio.h>
#include <stdlib.h>

#include "grid.h"
#ifdef GRID_DOUBLES
#include "doubles.h"
#define ACTIVATE double_activate
#else
#define ACTIVATE grid_activate
#endif

enum { MAP_DUMP = 0x314d4743, ARGUMENTS_DUMP = 0x31414743 }; /* "CGM1", "CGA1" */

static void fail(const char *why)
{
    fprintf(stderr, "portable: %s\n", why);
    exit(2);
}

/* All memory is one list, given back at the end. */
union block {
    union block *next;
    int64_t widest;
};

static union block *blocks;

static void *room(uint64_t count, size_t size)
{
    union block *block = 0;
    if (count < (SIZE_MAX / 2) / size)
        block = calloc(1, sizeof *block + (size_t)count * size);
    if (!block)
        fail("out of memory");
    block->next = blocks;
    blocks = block;
    return block + 1;
}

static void give_back(void)
{
    while (blocks) {
        union block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

static int32_t get(void)
{
    unsigned char b[4];
    uint32_t bits;
    if (fread(b, 1, 4, stdin) != 4)
        fail("the dump is too short");
    bits = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    return bits >> 31 ? -(int32_t)(~bits) - 1 : (int32_t)bits;
}

static uint32_t get_count(void)
{
    int32_t value = get();
    if (value < 0)
        fail("a count is negative");
    return (uint32_t)value;
}

static void put(int64_t value)
{
    unsigned char b[8];
    int i;
    for (i = 0; i < 8; i++)
        b[i] = (unsigned char)((uint64_t)value >> 8 * i);
    if (fwrite(b, 1, 8, stdout) != 8)
        fail("the output is full");
}

static void put_all(const int64_t *values, uint64_t count)
{
    while (count--)
        put(*values++);
}

static int32_t *get_all(uint64_t count)
{
    int32_t *values = room(count, sizeof *values);
    uint64_t i;
    for (i = 0; i < count; i++)
        values[i] = get();
    return values;
}

static grid_word *get_words(uint64_t count)
{
    grid_word *values = room(count, sizeof *values);
    uint64_t i;
    for (i = 0; i < count; i++) {
        int32_t value = get();
        values[i] = (grid_word)value;
        if (values[i] != value)
            fail("a weight does not fit the words of this program");
    }
    return values;
}

static struct grid_rows get_rows(uint32_t units, uint32_t width)
{
    struct grid_rows rows;
    uint32_t *starts = room((uint64_t)units + 1, sizeof *starts), i;
    grid_index *columns;
    for (i = 0; i <= units; i++) {
        starts[i] = get_count();
        if (i ? starts[i] < starts[i - 1] : starts[i] != 0)
            fail("a row ends before it starts");
    }
    columns = room(starts[units], sizeof *columns);
    for (i = 0; i < starts[units]; i++) {
        uint32_t column = get_count();
        columns[i] = (grid_index)column;
        if (columns[i] != column || column >= width)
            fail("a column does not exist");
    }
    rows.starts = starts;
    rows.columns = columns;
    rows.values = get_words(starts[units]);
    return rows;
}

static void get_layer(struct grid_layer *layer, uint32_t inputs, int digits)
{
    uint32_t i;
    uint8_t *activation;
    layer->units = get_count();
    layer->inputs = inputs;
    layer->weight_digits = get();
    layer->recurrent = get_rows(layer->units, layer->units);
    layer->input = get_rows(layer->units, inputs);
    layer->bias = get_words(layer->units);
    layer->leak = get_all(layer->units);
    layer->activation = activation = room(layer->units, 1);
    for (i = 0; i < layer->units; i++) {
        int32_t code = get();
        if (code < GRID_TANH || code > GRID_IDENTITY)
            fail("an activation does not exist");
        if (GRID_WORD == 16 && (digits > 15 || code == GRID_RELU || code == GRID_IDENTITY))
            fail("the states do not fit the words of this program");
        activation[i] = (uint8_t)code;
    }
}

static void get_map(struct grid_map *map)
{
    struct grid_layer *layers;
    int8_t *feature_digits;
    uint32_t k;
    map->digits = get();
    map->leak_digits = get();
    map->inputs = get_count();
    map->layers = get_count();
    map->cut_length = get_count();
    map->cut_warmup = get_count();
    map->has_bias = get() != 0;
    map->has_input = get() != 0;
    map->has_state = get() != 0;
    map->pool = get();
    map->segments = get_count();
    map->washout = get_count();
    map->feature_grid = get();
    if (map->digits < 1 || map->digits > 24 || map->feature_grid < 1 || map->feature_grid > 24)
        fail("the grid is none");
    map->layer = layers = room(map->layers, sizeof *layers);
    map->units = 0;
    for (k = 0; k < map->layers; k++) {
        get_layer(layers + k, k ? layers[k - 1].units : map->inputs, map->digits);
        map->units += layers[k].units;
    }
    feature_digits = room(grid_base_features(map), 1);
    for (k = 0; k < grid_base_features(map); k++)
        feature_digits[k] = (int8_t)get();
    map->feature_digits = feature_digits;
}

struct client {
    const struct grid_map *map;
    struct grid_statistics sums;
    const int32_t *target;
};

static void put_step(void *context, uint32_t t, const int32_t *u, const grid_word *x)
{
    const struct grid_map *map = context;
    uint32_t i;
    (void)t;
    (void)u;
    for (i = 0; i < map->units; i++)
        put(x[i]);
}

static void put_row(void *context, const int32_t *row)
{
    struct client *client = context;
    uint32_t i;
    for (i = 0; i < client->sums.features; i++)
        put(row[i]);
    if (!grid_add_row(&client->sums, row, client->target))
        fail("a sum could pass 63 bits");
    client->target += client->sums.targets;
}

static void run_sequence(struct client *client, const struct grid_work *work)
{
    const struct grid_map *map = client->map;
    uint32_t steps = get_count(), rows = map->pool == GRID_STEPS ? steps - map->washout : 1;
    int32_t *u;
    if (steps < map->washout + (map->segments ? map->segments : 1))
        fail("a sequence is too short");
    u = get_all((uint64_t)steps * map->inputs);
    client->target = get_all((uint64_t)rows * client->sums.targets);
    grid_states(map, u, steps, work->x, work->next, put_step, (void *)map);
    grid_feature_rows(map, u, steps, work, put_row, client);
}

static void run_map(void)
{
    struct grid_map map;
    struct client client;
    struct grid_work work;
    struct grid_statistics *sums = &client.sums;
    uint32_t sequences, F, K;
    get_map(&map);
    client.map = &map;
    sums->features = F = grid_features(&map);
    sums->targets = K = get_count();
    sums->feature_grid = map.feature_grid;
    sums->target_bits = get();
    sums->rows = 0;
    sums->feature_sum = room(F, 8);
    sums->target_sum = room(K, 8);
    sums->gram = room((uint64_t)F * (F + 1) / 2, 8);
    sums->cross = room((uint64_t)F * K, 8);
    sums->target_gram = room((uint64_t)K * (K + 1) / 2, 8);
    work.x = room(map.units, sizeof *work.x);
    work.next = room(map.units, sizeof *work.next);
    work.sums = room(grid_base_features(&map), sizeof *work.sums);
    work.row = room(F, sizeof *work.row);
    for (sequences = get_count(); sequences; sequences--)
        run_sequence(&client, &work);
    put(sums->rows);
    put_all(sums->feature_sum, F);
    put_all(sums->target_sum, K);
    put_all(sums->gram, (uint64_t)F * (F + 1) / 2);
    put_all(sums->cross, (uint64_t)F * K);
    put_all(sums->target_gram, (uint64_t)K * (K + 1) / 2);
}

static void run_arguments(void)
{
    int code = get(), p_digits = get(), digits = get();
    uint32_t count;
    for (count = get_count(); count; count--) {
        int64_t low = (uint32_t)get(), high = get();
        put(ACTIVATE(code, high * 4294967296 + low, p_digits, digits));
    }
}

int main(void)
{
    int32_t kind;
    atexit(give_back);
    kind = get();
    if (kind == MAP_DUMP)
        run_map();
    else if (kind == ARGUMENTS_DUMP)
        run_arguments();
    else
        fail("this is no dump");
    return fflush(stdout) != 0;
}
