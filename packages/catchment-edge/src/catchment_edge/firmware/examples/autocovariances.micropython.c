/* Autocovariances as a module of MicroPython: start(), fixed(value, mean, scale), feed(integer), gap(),
 * sums(), sent(). A lag of sums() is (high, low, pairs), and its sum is high * 2**32 + low. */
#include "py/dynruntime.h"

#include "@NAME@.h"

struct lags state; /* not static: a native module allows no static one */

/* What the compiler may call of C's library, which a native module has not. */
void *memset(void *to, int value, size_t bytes)
{
    return mp_fun_table.memset_(to, value, bytes);
}

static mp_obj_t fixed(mp_obj_t value, mp_obj_t mean, mp_obj_t scale)
{
    const double x = mp_obj_get_float_to_d(value), m = mp_obj_get_float_to_d(mean);
    return mp_obj_new_int(lags_fixed(x, m, mp_obj_get_float_to_d(scale)));
}
static MP_DEFINE_CONST_FUN_OBJ_3(fixed_obj, fixed);

static mp_obj_t start(void)
{
    lags_start(&state);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_0(start_obj, start);

static mp_obj_t feed(mp_obj_t given)
{
    const mp_int_t value = mp_obj_get_int(given);
    if (value > LAGS_LARGEST || value < -LAGS_LARGEST)
        mp_raise_ValueError(MP_ERROR_TEXT("a value must lie within -32767 and 32767"));
    if (lags_feed(&state, (int16_t)value) == LAGS_FULL)
        mp_raise_ValueError(MP_ERROR_TEXT("the sums are full; send them, then feed this value again"));
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(feed_obj, feed);

static mp_obj_t gap(void)
{
    lags_gap(&state);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_0(gap_obj, gap);

static mp_obj_t sums(void)
{
    mp_obj_t found = mp_obj_new_list(0, NULL);
    uint16_t k;
    for (k = 0; k < LAGS; k++) {
        mp_obj_t lag[3];
        lag[0] = mp_obj_new_int(state.high[k]);
        lag[1] = mp_obj_new_int_from_uint(state.low[k]);
        lag[2] = mp_obj_new_int_from_uint(lags_pairs(&state, k));
        mp_obj_list_append(found, mp_obj_new_tuple(3, lag));
    }
    return found;
}
static MP_DEFINE_CONST_FUN_OBJ_0(sums_obj, sums);

static mp_obj_t sent(void)
{
    lags_sent(&state);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_0(sent_obj, sent);

mp_obj_t mpy_init(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args)
{
    MP_DYNRUNTIME_INIT_ENTRY
    lags_start(&state);
    mp_store_global(MP_QSTR_start, MP_OBJ_FROM_PTR(&start_obj));
    mp_store_global(MP_QSTR_fixed, MP_OBJ_FROM_PTR(&fixed_obj));
    mp_store_global(MP_QSTR_feed, MP_OBJ_FROM_PTR(&feed_obj));
    mp_store_global(MP_QSTR_gap, MP_OBJ_FROM_PTR(&gap_obj));
    mp_store_global(MP_QSTR_sums, MP_OBJ_FROM_PTR(&sums_obj));
    mp_store_global(MP_QSTR_sent, MP_OBJ_FROM_PTR(&sent_obj));
    MP_DYNRUNTIME_INIT_EXIT
}
