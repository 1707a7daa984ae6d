/* The model as a module of MicroPython: reset(), step(sample), finish(). */
#include "py/dynruntime.h"

#include "@NAME@.h"

struct @NAME@_state state; /* not static: a native module allows no static one */

/* What the compiler may call of C's library, which a native module has not. */
void *memset(void *to, int value, size_t bytes)
{
    return mp_fun_table.memset_(to, value, bytes);
}

void *memcpy(void *to, const void *from, size_t bytes)
{
    return mp_fun_table.memmove_(to, from, bytes);
}

static void read_sample(mp_obj_t given, @NAME@_value *sample)
{
    size_t length, i;
    mp_obj_t *values;
    mp_obj_get_array(given, &length, &values);
    if (length != @UPPER@_CHANNELS)
        mp_raise_ValueError(MP_ERROR_TEXT("a sample needs a number for each channel"));
    for (i = 0; i < @UPPER@_CHANNELS; i++)
        sample[i] = mp_obj_get_float_to_d(values[i]);
}

static mp_obj_t answer(int status, const float *scores)
{
    mp_obj_t values[@UPPER@_OUTPUTS];
    int i;
    if (status < 0)
        mp_raise_ValueError(MP_ERROR_TEXT("a sample is infinite, or missing where none may be"));
    if (status == 0)
        return mp_const_none;
    for (i = 0; i < @UPPER@_OUTPUTS; i++)
        values[i] = mp_obj_new_float_from_f(scores[i]);
    return mp_obj_new_tuple(@UPPER@_OUTPUTS, values);
}

static mp_obj_t reset(void)
{
    @NAME@_reset(&state);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_0(reset_obj, reset);

static mp_obj_t step(mp_obj_t given)
{
    @NAME@_value sample[@UPPER@_CHANNELS];
    float scores[@UPPER@_OUTPUTS];
    read_sample(given, sample);
    return answer(@NAME@_step(&state, sample, scores), scores);
}
static MP_DEFINE_CONST_FUN_OBJ_1(step_obj, step);

static mp_obj_t finish(void)
{
    float scores[@UPPER@_OUTPUTS];
    return answer(@NAME@_finish(&state, scores), scores);
}
static MP_DEFINE_CONST_FUN_OBJ_0(finish_obj, finish);
@CLASSES_FUNCTION@
mp_obj_t mpy_init(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args)
{
    MP_DYNRUNTIME_INIT_ENTRY
    @NAME@_reset(&state);
    mp_store_global(MP_QSTR_reset, MP_OBJ_FROM_PTR(&reset_obj));
    mp_store_global(MP_QSTR_step, MP_OBJ_FROM_PTR(&step_obj));
    mp_store_global(MP_QSTR_finish, MP_OBJ_FROM_PTR(&finish_obj));
@CLASSES_ENTRY@    MP_DYNRUNTIME_INIT_EXIT
}
