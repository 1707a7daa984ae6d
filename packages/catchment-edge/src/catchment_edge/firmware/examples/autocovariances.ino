// One value per line on the serial port; `send` prints every lag's sum and pairs, and begins anew.
// A line that is no number is a gap. MEAN and SCALE are those of the federation's scaling round.
#include <@NAME@.h>
#include <stdlib.h>

static const double MEAN = 0.0, SCALE = 1.0;
static struct lags sums;

static void print64(int64_t value) {
  char digits[21];
  uint8_t at = sizeof digits - 1;
  uint64_t rest = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
  digits[at] = 0;
  do {
    digits[--at] = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (value < 0) {
    Serial.print('-');
  }
  Serial.print(digits + at);
}

static void send() {
  for (uint16_t k = 0; k < LAGS; k++) {
    print64(lags_product(&sums, k));
    Serial.print(' ');
    Serial.println(lags_pairs(&sums, k));
  }
  lags_sent(&sums);
}

void setup() {
  Serial.begin(115200);
  lags_start(&sums);
}

void loop() {
  if (Serial.available() == 0) {
    return;
  }
  String line = Serial.readStringUntil('\n');
  char *end;
  const double value = strtod(line.c_str(), &end);
  if (line.startsWith("send")) {
    send();
  } else if (end == line.c_str() || value != value) {
    lags_gap(&sums);
  } else if (lags_feed(&sums, lags_fixed(value, MEAN, SCALE)) == LAGS_FULL) {
    Serial.println("full: send first, then this value again");
  }
}
