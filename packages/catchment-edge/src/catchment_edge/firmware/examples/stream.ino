// One line per sample on the serial port, channels separated by spaces; prints what the model says.
#include <@NAME@.h>
#include <stdlib.h>

static struct @NAME@_state state;
static float scores[@UPPER@_OUTPUTS];

void setup() {
  Serial.begin(115200);
  while (!Serial) {
  }
  @NAME@_reset(&state);
}

void loop() {
  if (Serial.available() == 0) {
    return;
  }
  String line = Serial.readStringUntil('\n');
  const char *at = line.c_str();
  @NAME@_value sample[@UPPER@_CHANNELS];
  for (int i = 0; i < @UPPER@_CHANNELS; i++) {
    char *end;
    sample[i] = strtod(at, &end);
    at = end;
  }
  if (@NAME@_step(&state, sample, scores) == 1) {
    @SAY_ARDUINO@
  }
}
