__device__ __forceinline__ double growth(double y) {
  double shifted = y * LOG2E + ROUND;
  double k = shifted - ROUND;
  double r = y - k * LN2;
  double p = C4 * r + (C3 + R27) - R27;
  p = p * r + (C2 + R27) - R27;
  p = p * r + (C1 + R27) - R27;
  p = p * r + (C0 + R27) - R27;
  p = p * r + R27 - R27;
  p = p * r + (r + R27) - R27;
  unsigned long long bits = (unsigned long long)__double_as_longlong(shifted) << 52;
  double scale = __longlong_as_double((long long)(bits + 0x3FF0000000000000ULL));
  return scale * p + (scale - 1.0);
}

__device__ __forceinline__ double fixed_sin(double x) {
  double a = fmin(fabs(x), FARTHEST);
  double shifted = (a + R26 - R26) * OVER_PI + ROUND;
  double k = shifted - ROUND;
  double r = (a - k * PI) + R25 - R25;
  double z = r * r + R24 - R24;
  double p = S4 * z + (S3 + R36) - R36;
  p = p * z + (S2 + R30) - R30;
  p = p * z + (S1 + R30) - R30;
  p = p * z + (S0 + R29) - R29;
  p = p * z + R27 - R27;
  p = p * r + (r + R27) - R27;
  p = fmin(fmax(p + G - G, -TOP), TOP);
  p = (__double_as_longlong(shifted) & 1) ? -p : p;
  return x < 0.0 ? -p : p;
}

__device__ __forceinline__ double activate(int code, double x) {
  if (code == 0) {
    double e = growth(fmin(fabs(x + x) + R26 - R26, LARGEST));
    return copysign(fmin(e / (e + 2.0) + G - G, TOP), x);
  }
  if (code == 1) {
    double e = growth(fmin(fabs(x) + R26 - R26, LARGEST));
    double upper = fmin((e + 1.0) / (e + 2.0) + G - G, TOP);
    return x >= 0.0 ? upper : 1.0 - upper;
  }
  if (code == 3) return fixed_sin(x);
  double linear = fmin(fmax(x + G - G, -LINEAR_BOUND), LINEAR_BOUND);
  return code == 2 ? fmax(linear, 0.0) : linear;
}

__device__ __forceinline__ double leaked(double a, double x, double y) {
  return (1.0 - a) * x + a * y + G - G;
}
