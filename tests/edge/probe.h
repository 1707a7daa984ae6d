#include <stdint.h>

int probe_answer(void);
