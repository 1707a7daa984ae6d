
extern const char *const @NAME@_classes[@OUTPUTS@];

/* The number of the class with the largest score. */
int @NAME@_class(const float *scores);
