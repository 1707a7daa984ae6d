
static mp_obj_t classes(void)
{
    mp_obj_t names[@UPPER@_OUTPUTS];
    int i;
    for (i = 0; i < @UPPER@_OUTPUTS; i++) {
        size_t length = 0;
        while (@NAME@_classes[i][length] != 0)
            length++;
        names[i] = mp_obj_new_str(@NAME@_classes[i], length);
    }
    return mp_obj_new_tuple(@UPPER@_OUTPUTS, names);
}
static MP_DEFINE_CONST_FUN_OBJ_0(classes_obj, classes);
